/*
 * The only process of a kernel that is booted to be measured: carries out /plan, a step per line, and writes what comes of each to
 * the console. No libc: it is linked once per ISA. What the steps are for is the parent's business (boot/plan.py); numbers are
 * hexadecimal in both directions.
 *
 *   say WORDS               the words, as they are
 *   write PATH TEXT         into a file that is there
 *   empty PATH              a file that is there
 *   mkdir PATH, rmdir PATH
 *   read PATH, find PATH WORD   a file's lines, all or those with this word in them, each behind "| "
 *   gone PATH WORD          wait until no line of the file has this word in it
 *   module PATH             load a module
 *   program TYPE ATTACH ID CODE  load a BPF program, and write the address of its machine code, and that; the next step attaches it
 *   trace                   attach it to the function with that BTF id
 *   multi ATTACH FLAGS NAME...  attach it to these functions, as kprobe_multi
 *   perf TYPE CONFIG NAME OFFSET FLAGS  open an event, for all tasks with the program on it, or without one for this one. TYPE and
 *                           CONFIG may be the path of a file that has them, in decimal; NAME may be "-"
 *   filter TEXT, enable     the event that was opened last
 *   trampoline ID SIZE      the address of the BPF trampoline that the function with that BTF id has, and so many bytes from there
 *   bytes ADDRESS SIZE      of the kernel's memory
 *   close                   all that was loaded, attached and opened
 *   hits                    the number that BPF programs share, and what the last event has counted
 *   sleep MILLISECONDS
 *   sleeper MILLISECONDS    the same in a process of its own
 *   stack                   of that process, as /proc has it
 *   calls N                 make system calls
 *   count N BLOCKS          the clock's units that N and 2 N system calls take, in turn, as often
 *   loop N BLOCKS           the same of a loop of three instructions
 *   nr NUMBER ARGUMENT      from now on this is the system call
 *   cpu N                   from now on this process is on that CPU
 *   caller                  make system calls for ever, in a process of its own that stays on this CPU
 *
 *   try STEP                a step that may be refused without a word
 *   beside STEP             a step in a process of its own, for which the next one does not wait
 *
 * Any other step that the kernel refuses writes "refused ERRNO STEP" and the next one follows.
 */
#include "attaching.h"
#include "counting.h"

enum { MAX_PLAN = 1 << 17, SIGCHLD = 17, POWER_OFF = 0x4321fedc, TCSBRK = 0x5409 };

static char plan[MAX_PLAN];
static long sleeper;

static char *rest(void)
{
	while (blank(*in))
		in++;
	return in;
}

/* Longer than 40 lines because it has a branch for each word of a plan. */
static long step(void)
{
	char *what = next_word(), *path;
	u64 a, b, offset, size;
	u8 *code;

	if (same(what, "try")) {
		step();
	} else if (same(what, "beside")) {
		flush();
		if (!call(SYS_CLONE, SIGCHLD, 0, 0, 0, 0)) {
			step();
			call(SYS_EXIT_GROUP, 0, 0, 0, 0, 0);
		}
	} else if (same(what, "say")) {
		put_word(rest());
		end_line();
		flush();
	} else if (same(what, "write")) {
		path = next_word();
		return write_file(path, rest());
	} else if (same(what, "empty")) {
		return call(SYS_CLOSE, open_file(next_word(), O_WRONLY | O_TRUNC), 0, 0, 0, 0);
	} else if (same(what, "mkdir")) {
		return call(SYS_MKDIRAT, AT_FDCWD, (long)next_word(), 0755, 0, 0);
	} else if (same(what, "rmdir")) {
		return call(SYS_UNLINKAT, AT_FDCWD, (long)next_word(), AT_REMOVEDIR, 0, 0);
	} else if (same(what, "read")) {
		return read_file(next_word(), "");
	} else if (same(what, "find")) {
		path = next_word();
		return read_file(path, rest());
	} else if (same(what, "gone")) {
		path = next_word();
		return until_gone(path, rest());
	} else if (same(what, "module")) {
		return load_module(next_word());
	} else if (same(what, "program")) {
		a = next_number();
		b = next_number();
		offset = next_number();
		code = next_bytes(&size);
		program = load(a, b, offset, code, size);
		if (program >= 0)
			put_code();
		return program;
	} else if (same(what, "trace")) {
		return trace();
	} else if (same(what, "multi")) {
		a = next_number();
		return multi(a, next_number());
	} else if (same(what, "perf")) {
		a = number_or_file();
		b = number_or_file();
		path = next_word();
		offset = next_number();
		return perf(a, b, *path == '-' ? 0 : path, offset, next_number());
	} else if (same(what, "filter")) {
		return call(SYS_IOCTL, event, PERF_SET_FILTER, (long)rest(), 0, 0);
	} else if (same(what, "enable")) {
		return call(SYS_IOCTL, event, PERF_ENABLE, 0, 0, 0);
	} else if (same(what, "trampoline")) {
		a = next_number();
		return trampoline(a, next_number());
	} else if (same(what, "bytes")) {
		a = next_number();
		put_bytes(a, next_number());
	} else if (same(what, "close")) {
		close_all();
	} else if (same(what, "hits")) {
		put_hits();
	} else if (same(what, "sleep")) {
		sleep_for(next_number());
	} else if (same(what, "sleeper")) {
		a = next_number();
		flush();
		sleeper = call(SYS_CLONE, SIGCHLD, 0, 0, 0, 0);
		if (!sleeper) {
			sleep_for(a);
			call(SYS_EXIT_GROUP, 0, 0, 0, 0, 0);
		}
	} else if (same(what, "cpu")) {
		a = 1UL << next_number();
		return call(SYS_SETAFFINITY, 0, sizeof(a), (long)&a, 0, 0);
	} else if (same(what, "caller")) {
		flush();
		if (!call(SYS_CLONE, SIGCHLD, 0, 0, 0, 0))
			calls(-1);
	} else if (same(what, "stack")) {
		return read_file(stack_of(sleeper), "");
	} else if (same(what, "nr")) {
		number = next_number();
		argument = next_number();
	} else if (same(what, "calls")) {
		calls(next_number());
	} else if (same(what, "count") || same(what, "loop")) {
		a = next_number();
		count(same(what, "count") ? calls : loops, a, next_number());
	} else {
		return -EINVAL;
	}
	return 0;
}

void process(void)
{
	char *line = plan, *next;
	long fd;

	call(SYS_MOUNT, (long)"proc", (long)"/proc", (long)"proc", 0, 0);
	call(SYS_MKDIRAT, AT_FDCWD, (long)"/sys", 0755, 0, 0);
	call(SYS_MOUNT, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0);
	call(SYS_MOUNT, (long)"tracefs", (long)"/sys/kernel/tracing", (long)"tracefs", 0, 0);
	call(SYS_MOUNT, (long)"debugfs", (long)"/sys/kernel/debug", (long)"debugfs", 0, 0);
	write_file("/proc/sys/kernel/printk", "1");
	make_map();
	fd = open_file("/plan", 0);
	call(SYS_READ, fd, (long)plan, sizeof(plan) - 1, 0, 0);
	put_word("\nbegin\n"); /* firmware may have begun a line */
	for (; *line; line = next) {
		static char said[256];
		long result;

		for (next = line; *next && *next != '\n'; next++)
			;
		if (*next)
			*next++ = 0;
		memset(said, 0, sizeof(said));
		for (int i = 0; line[i] && i < (int)sizeof(said) - 1; i++)
			said[i] = line[i];
		in = line;
		result = step();
		if (result < 0) {
			put_word("refused");
			put_number(-result);
			put_name(said);
			end_line();
		}
	}
	put_word("end\n");
	flush();
	call(SYS_IOCTL, 1, TCSBRK, 1, 0, 0); /* until the console has all of it */
	call(SYS_REBOOT, 0xfee1dead, 672274793, POWER_OFF, 0, 0);
}
