/* What programs are attached to, events, and what was called. */
#ifndef INIT_ATTACHING_H
#define INIT_ATTACHING_H

#include "programs.h"

enum { MAX_NAMES = 16, RAW_TRACEPOINT_OPEN = 17, LINK_CREATE = 28 }; /* include/uapi/linux/bpf.h */
enum { PERF_ENABLE = 0x2400, PERF_SET_FILTER = 0x40082406, PERF_SET_BPF = 0x40042408 }; /* include/uapi/linux/perf_event.h */

static long event = -1;

static long trace(void)
{
	u64 attributes[2] = { 0, program };

	return kept(bpf(RAW_TRACEPOINT_OPEN, attributes, sizeof(attributes)));
}

static long multi(u64 attach_type, u64 flags)
{
	char *names[MAX_NAMES];
	u64 nr = 0;
	u64 attributes[8] = { program, attach_type };

	while (nr < MAX_NAMES && *(names[nr] = next_word()))
		nr++;
	attributes[2] = flags | nr << 32;
	attributes[3] = (u64)names;
	return kept(bpf(LINK_CREATE, attributes, sizeof(attributes)));
}

static long perf(u64 type, u64 config, char *name, u64 offset, u64 flags)
{
	enum { SIZE = 128 };
	/* type, size; config; sample_period; ...; config1, config2 */
	u64 attributes[SIZE / 8] = { type | (u64)SIZE << 32, config };

	attributes[5] = 1 | flags; /* disabled */
	attributes[7] = (u64)name;
	attributes[8] = offset;
	event = kept(call(SYS_PERF_EVENT_OPEN, (long)attributes, program < 0 ? 0 : -1, program < 0 ? -1 : 0, -1, 0));
	if (event < 0 || program < 0)
		return event;
	return call(SYS_IOCTL, event, PERF_SET_BPF, program, 0, 0);
}

static void close_all(void)
{
	while (nr_fds)
		call(SYS_CLOSE, fds[--nr_fds], 0, 0, 0, 0);
	program = event = -1;
}

static void put_hits(void)
{
	u64 programs = 0, counted[1] = { 0 };

	with_count(MAP_LOOKUP, &programs);
	if (event >= 0)
		call(SYS_READ, event, (long)counted, sizeof(counted), 0, 0);
	put_word("hits programs");
	put_number(programs);
	put_word(" event");
	put_number(counted[0]);
	end_line();
}

#endif
