/* Hardware counters of this thread in user mode, as one group: read together, over the same stretch. */
#ifndef CHILD_COUNTERS_H
#define CHILD_COUNTERS_H

#include "text.h"

enum { MAX_COUNTERS = 8 };
enum { PERF_ENABLE = 0x2400, PERF_DISABLE = 0x2401, PERF_RESET = 0x2403, PERF_GROUP = 1 };
enum { FORMAT_TIMES_AND_GROUP = 1 | 2 | 8, FLAG_DISABLED = 1, FLAG_EXCLUDE_KERNEL = 1 << 5, FLAG_EXCLUDE_HV = 1 << 6 };

/* struct perf_event_attr, as far as its first published size (PERF_ATTR_SIZE_VER0) goes. */
struct perf_attr {
	unsigned int type, size;
	u64 config, period, sample_type, read_format, flags;
	unsigned int wakeup, breakpoint_type;
	u64 config1;
};

static long counters[MAX_COUNTERS];
static u64 nr_counters;

/* Add a counter to the group; returns 0 or what the kernel said. */
static long add_counter(u64 type, u64 config)
{
	struct perf_attr attr = {
		.type = type, .size = sizeof(attr), .config = config, .read_format = FORMAT_TIMES_AND_GROUP,
		.flags = FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV | (nr_counters ? 0 : FLAG_DISABLED),
	};
	long leader = nr_counters ? counters[0] : -1;
	long fd = nr_counters < MAX_COUNTERS ? sys(SYS_PERF_EVENT_OPEN, (long)&attr, 0, -1, leader, 0, 0) : -1;

	if (fd < 0)
		return fd;
	counters[nr_counters++] = fd;
	return 0;
}

static void start_counting(void)
{
	sys(SYS_IOCTL, counters[0], PERF_RESET, PERF_GROUP, 0, 0, 0);
	sys(SYS_IOCTL, counters[0], PERF_ENABLE, PERF_GROUP, 0, 0, 0);
}

/* The time the group was wanted and the time it really counted, in ns, and then every counter. */
static void stop_and_put_counts(void)
{
	u64 values[3 + MAX_COUNTERS] = { 0 };

	sys(SYS_IOCTL, counters[0], PERF_DISABLE, PERF_GROUP, 0, 0, 0);
	sys(SYS_READ, counters[0], (long)values, sizeof(values), 0, 0, 0);
	for (u64 i = 0; i < 2 + nr_counters; i++)
		put_number(values[1 + i]);
}

#endif
