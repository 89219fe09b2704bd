/*
 * The only process of a kernel that is booted to be measured: carries out /plan, a step per line, and writes what comes of each to the
 * console. No libc: it is linked once per ISA. What the steps are for is the parent's business (boot/plan.py); numbers are
 * hexadecimal in both directions.
 *
 *   say WORDS               the words, as they are
 *   write PATH TEXT         into a file that is there
 *   empty PATH              a file that is there
 *   mkdir PATH, rmdir PATH
 *   read PATH, find PATH WORD   a file's lines, all or those with this word in them, each behind "| "
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
 *
 *   try STEP                a step that may be refused without a word
 *
 * Any other step that the kernel refuses writes "refused ERRNO STEP" and the next one follows.
 */
#include "text.h"

#if defined(__x86_64__)
enum {
	SYS_CLOSE = 3, SYS_NANOSLEEP = 35, SYS_MKDIRAT = 258, SYS_UNLINKAT = 263, SYS_MOUNT = 165, SYS_REBOOT = 169, SYS_OPENAT = 257,
	SYS_FINIT_MODULE = 313, SYS_BPF = 321, SYS_CLONE = 56,
};
#else
enum {
	SYS_MKDIRAT = 34, SYS_UNLINKAT = 35, SYS_MOUNT = 40, SYS_OPENAT = 56, SYS_CLOSE = 57, SYS_NANOSLEEP = 101, SYS_REBOOT = 142,
	SYS_FINIT_MODULE = 273, SYS_BPF = 280, SYS_CLONE = 220,
};
#endif
enum { AT_FDCWD = -100, AT_REMOVEDIR = 0x200, O_WRONLY = 1, O_TRUNC = 01000, O_APPEND = 02000, ENOENT = 2, EBUSY = 16, SIGCHLD = 17, POWER_OFF = 0x4321fedc, TCSBRK = 0x5409 };
enum { IGNORE_MODVERSIONS = 1 }; /* include/uapi/linux/module.h */
enum { MAX_PLAN = 1 << 17, MAX_FDS = 256, MAX_BLOCKS = 256, MAX_NAMES = 16, TRIES = 100 };
/* include/uapi/linux/bpf.h, and perf_event.h */
enum { MAP_CREATE = 0, MAP_LOOKUP = 1, PROG_LOAD = 5, PROG_TEST_RUN = 10, OBJ_GET_INFO_BY_FD = 15, RAW_TRACEPOINT_OPEN = 17, LINK_CREATE = 28, MAP_ARRAY = 2, RAW_TRACEPOINT = 17 };
enum { PERF_ENABLE = 0x2400, PERF_SET_FILTER = 0x40082406, PERF_SET_BPF = 0x40042408 };

static char plan[MAX_PLAN];
static long fds[MAX_FDS], nr_fds, map = -1, program = -1, event = -1;
static u64 number, argument;
static long sleeper;

static long call(long nr, long a, long b, long c, long d, long e)
{
	return sys(nr, a, b, c, d, e, 0);
}

static u64 length(const char *s)
{
	u64 n = 0;

	while (s[n])
		n++;
	return n;
}

/* Have it closed with the others. */
static long kept(long fd)
{
	if (fd >= 0 && nr_fds < MAX_FDS)
		fds[nr_fds++] = fd;
	return fd;
}

static long open_file(const char *path, int flags)
{
	return call(SYS_OPENAT, AT_FDCWD, (long)path, flags, 0, 0);
}

static void sleep_for(u64 milliseconds)
{
	u64 time[2] = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	call(SYS_NANOSLEEP, (long)time, 0, 0, 0, 0);
}

/* What is still in use is refused for a while: an event is released only after a grace period. */
static long write_file(const char *path, const char *text)
{
	long n = 0;

	for (int tries = 0; tries < TRIES; tries++) {
		long fd = open_file(path, O_WRONLY | O_APPEND);

		if (fd < 0)
			return fd;
		n = call(SYS_WRITE, fd, (long)text, length(text), 0, 0);
		call(SYS_CLOSE, fd, 0, 0, 0, 0);
		if (n != -EBUSY)
			break;
		sleep_for(20);
	}
	return n;
}

static int has(const char *line, const char *word)
{
	for (; *line; line++) {
		u64 i = 0;

		while (word[i] && line[i] == word[i])
			i++;
		if (!word[i])
			return 1;
	}
	return !*word;
}

/* Have a function look at each line of a file. */
static long each_line(const char *path, void (*look)(const char *line))
{
	static char buffer[1 << 16], line[1 << 10];
	long fd = open_file(path, 0), n;
	u64 used = 0;

	if (fd < 0)
		return fd;
	while ((n = call(SYS_READ, fd, (long)buffer, sizeof(buffer), 0, 0)) > 0)
		for (long i = 0; i < n; i++) {
			if (buffer[i] != '\n' && used < sizeof(line) - 1) {
				line[used++] = buffer[i];
				continue;
			}
			line[used] = 0;
			used = 0;
			look(line);
		}
	call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return n;
}

static const char *wanted;

static void put_wanted(const char *line)
{
	if (!has(line, wanted))
		return;
	put_word("| ");
	put_word(line);
	end_line();
}

static long read_file(const char *path, const char *word)
{
	wanted = word;
	return each_line(path, put_wanted);
}

/* /proc/PID/stack */
static char *stack_of(u64 pid)
{
	static char path[32] = "/proc/";
	char digits[16], *to = path + 6;
	int n = 0;

	for (; pid; pid /= 10)
		digits[n++] = '0' + pid % 10;
	while (n)
		*to++ = digits[--n];
	for (const char *from = "/stack"; *from; from++)
		*to++ = *from;
	*to = 0;
	return path;
}

static u64 decimal(const char *path)
{
	char text[32] = "";
	u64 n = 0;
	long fd = open_file(path, 0);

	call(SYS_READ, fd, (long)text, sizeof(text) - 1, 0, 0);
	call(SYS_CLOSE, fd, 0, 0, 0, 0);
	for (char *c = text; *c >= '0' && *c <= '9'; c++)
		n = 10 * n + *c - '0';
	return n;
}

/* A number, or the path of a file that has it. */
static u64 number_or_file(void)
{
	char *at = in;

	while (blank(*at))
		at++;
	return *at == '/' ? decimal(next_word()) : next_number();
}

static long load_module(const char *path)
{
	long fd = open_file(path, 0), error;

	error = call(SYS_FINIT_MODULE, fd, (long)"", 0, 0, 0);
	if (error) /* our module has no checksums: some kernels that have them ask for all, and can be asked not to compare */
		error = call(SYS_FINIT_MODULE, fd, (long)"", IGNORE_MODVERSIONS, 0, 0);
	call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return error;
}

static long bpf(int command, void *attributes, u64 size)
{
	return call(SYS_BPF, command, (long)attributes, size, 0, 0);
}

/* One number that programs count in. */
static void make_map(void)
{
	u64 attributes[9] = { MAP_ARRAY | 4UL << 32, 8 | 1UL << 32 };

	map = bpf(MAP_CREATE, attributes, sizeof(attributes));
}

static long with_count(int command, u64 *count)
{
	unsigned key = 0;
	u64 attributes[4] = { map, (u64)&key, (u64)count };

	return bpf(command, attributes, sizeof(attributes));
}

/* Instructions of eight bytes each; what loads the address of a map's value is given the map. */
static long load(u64 type, u64 attach_type, u64 id, u8 *code, u64 size)
{
	enum { LOAD = 0x18, MAP_VALUE = 2 };
	/* prog_type, insn_cnt; insns; license; ...; in the upper halves of the words at 64 and 104 expected_attach_type, attach_btf_id */
	u64 attributes[15] = { type | size / 8 << 32, (u64)code, (u64)"GPL" };

	for (u64 at = 0; at < size; at += 8)
		if (code[at] == LOAD && code[at + 1] >> 4 == MAP_VALUE)
			code[at + 4] = map;
	attributes[8] = attach_type << 32;
	attributes[13] = id << 32;
	return kept(bpf(PROG_LOAD, attributes, sizeof(attributes)));
}

static void put_hex(u8 byte)
{
	put_char("0123456789abcdef"[byte >> 4]);
	put_char("0123456789abcdef"[byte & 15]);
}

/* The program's machine code. */
static void put_code(void)
{
	static u64 info[16];
	static u8 code[1024];
	u64 address = 0, attributes[2] = { program | sizeof(info) << 32, (u64)info };

	memset(info, 0, sizeof(info));
	info[2] = sizeof(code); /* jited_prog_len */
	info[3] = (u64)code;
	info[13] = 1; /* nr_jited_ksyms */
	info[14] = (u64)&address;
	bpf(OBJ_GET_INFO_BY_FD, attributes, sizeof(attributes));
	put_word("code");
	put_number(address);
	put_char(' ');
	for (u64 i = 0; i < (info[2] & 0xffffffff) && i < sizeof(code); i++)
		put_hex(code[i]);
	end_line();
}

/* A program that returns the four bytes at the address that is the first word of what it is given, by bpf_probe_read_kernel(). */
static long load_peeker(void)
{
	static u8 code[] = {
		0x79, 0x13, 0, 0, 0, 0, 0, 0, 0x7a, 0x0a, 0xf8, 0xff, 0, 0, 0, 0, 0xbf, 0xa1, 0, 0, 0, 0, 0, 0,
		0x07, 0x01, 0, 0, 0xf8, 0xff, 0xff, 0xff, 0xb7, 0x02, 0, 0, 4, 0, 0, 0, 0x85, 0, 0, 0, 113, 0, 0, 0,
		0x61, 0xa0, 0xf8, 0xff, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0,
	};

	return load(RAW_TRACEPOINT, 0, 0, code, sizeof(code));
}

static void put_bytes(u64 address, u64 size)
{
	long peeker = load_peeker();

	put_word("bytes");
	put_number(address);
	put_char(' ');
	for (u64 at = 0; at < size; at += 4) {
		u64 context = address + at, attributes[10] = { peeker };

		attributes[5] = sizeof(context); /* ctx_size_in */
		attributes[6] = (u64)&context;
		bpf(PROG_TEST_RUN, attributes, sizeof(attributes));
		for (int i = 0; i < 4; i++)
			put_hex(attributes[0] >> (32 + 8 * i)); /* retval is the upper half */
	}
	end_line();
}

/* "ADDRESS TYPE bpf_trampoline_KEY [bpf]": the address, if the lower half of the key is this function's id. */
static u64 trampoline_of(const char *line, u64 id)
{
	static const char prefix[] = "bpf_trampoline_";
	const char *name = line + 19;
	u64 address = 0, key = 0;

	for (const char *at = prefix; *at; at++, name++)
		if (*name != *at)
			return 0;
	for (; *name >= '0' && *name <= '9'; name++)
		key = 10 * key + *name - '0';
	for (int i = 0; i < 16; i++)
		address = address << 4 | digit(line[i]);
	return key && id == (key & 0x7fffffff) ? address : 0;
}

static u64 looked_for, found;

static void look_at(const char *line)
{
	u64 address = length(line) > 19 ? trampoline_of(line, looked_for) : 0;

	if (address) /* of a function's trampolines the newest is the last */
		found = address;
}

static long trampoline(u64 id, u64 size)
{
	looked_for = id;
	found = 0;
	each_line("/proc/kallsyms", look_at);
	if (!found)
		return -ENOENT;
	put_bytes(found, size);
	return 0;
}

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

/*
 * Virtual time, which passes by one nanosecond with each instruction. x86-64's counter shows every one of them, the others' their 16th
 * or 100th: edge() waits there until the counter changes, and says after how many turns of a loop it did.
 */
static inline u64 edge(u64 *at)
{
	u64 turns = 0, t;
#if defined(__x86_64__)
	unsigned low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high) :: "memory");
	t = low | (u64)high << 32;
#else
	u64 first;
#if defined(__aarch64__)
	asm volatile("mrs %1, cntvct_el0\n"
		     "1: add %0, %0, #1; mrs %2, cntvct_el0; cmp %2, %1; b.eq 1b"
		     : "+r"(turns), "=&r"(first), "=&r"(t) :: "cc", "memory");
#else
	asm volatile("rdtime %1\n"
		     "1: addi %0, %0, 1; rdtime %2; beq %2, %1, 1b"
		     : "+r"(turns), "=&r"(first), "=&r"(t) :: "memory");
#endif
#endif
	*at = t;
	return turns;
}

static void calls(u64 n)
{
	while (n--)
		sys(number, argument, 0, 0, 0, 0, 0);
}

static void loops(u64 n)
{
#if defined(__x86_64__)
	asm volatile("1: nop; dec %0; jnz 1b" : "+r"(n) :: "cc");
#elif defined(__aarch64__)
	asm volatile("1: nop; subs %0, %0, #1; b.ne 1b" : "+r"(n) :: "cc");
#else
	asm volatile("1: nop; addi %0, %0, -1; bnez %0, 1b" : "+r"(n));
#endif
}

static u64 taken[2 * MAX_BLOCKS], turns[2 * MAX_BLOCKS];

/* The counter's units that n of these take, and the turns of edge() until the last unit was full. */
__attribute__((noinline)) static void block(void (*what)(u64), u64 n, u64 i)
{
	u64 start, end;

	edge(&start);
	what(n);
	turns[i] = edge(&end);
	taken[i] = end - start;
}

static void count(void (*what)(u64), u64 n, u64 blocks)
{
	if (blocks > MAX_BLOCKS)
		blocks = MAX_BLOCKS;
	for (u64 i = 0; i < 2 * blocks; i++)
		block(what, i % 2 ? 2 * n : n, i);
	put_word("counted");
	for (u64 i = 0; i < 2 * blocks; i++) {
		put_number(taken[i]);
		put_number(turns[i]);
	}
	end_line();
}

static char *rest(void)
{
	while (blank(*in))
		in++;
	return in;
}

static long step(void)
{
	char *what = next_word(), *path;
	u64 a, b, offset, size;
	u8 *code;

	if (same(what, "try")) {
		step();
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
		return -22;
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
