/*
 * The only process of a kernel that is booted to see what its JIT makes: attaches BPF programs to functions, and writes the
 * trampolines to the console. No libc: it is linked once per ISA.
 *
 * /plan says what to attach: "NAME KINDS BTF-ID SITE", where KINDS has a letter for each program, e for fentry, m for fmod_ret and
 * x for fexit; "-" detaches all that came before. vmlinux/jit/saved.py reads the words that are written.
 */
#include "../../../native/child/arch.h"
#include "../../../native/child/text.h"

#if defined(__x86_64__)
enum { SYS_CLOSE = 3, SYS_MOUNT = 165, SYS_REBOOT = 169, SYS_OPENAT = 257, SYS_BPF = 321 };
#else
enum { SYS_MOUNT = 40, SYS_OPENAT = 56, SYS_CLOSE = 57, SYS_REBOOT = 142, SYS_BPF = 280 };
#endif
enum { AT_FDCWD = -100, O_WRONLY = 1, POWER_OFF = 0x4321fedc, TCSBRK = 0x5409, MAX_PLAN = 1 << 12, MAX_WAVE = 32, MAX_PROGRAMS = 4 };
enum { CODE_SIZE = 1024, SITE_SIZE = 16 };
/* include/uapi/linux/bpf.h */
enum { BPF_PROG_LOAD = 5, BPF_PROG_TEST_RUN = 10, BPF_OBJ_GET_INFO_BY_FD = 15, BPF_RAW_TRACEPOINT_OPEN = 17 };
enum { RAW_TRACEPOINT = 17, TRACING = 26, FENTRY = 24, FEXIT = 25, MODIFY_RETURN = 26 };

struct insn {
	u8 code, regs;
	short off;
	int imm;
};

static const struct insn nothing[] = { { 0xb7, 0, 0, 0 }, { 0x95, 0, 0, 0 } }; /* r0 = 0; exit */
/* The four bytes at the address that is the context's first word, by bpf_probe_read_kernel() (113). */
static const struct insn peek[] = {
	{ 0x79, 0x13, 0, 0 }, { 0x7a, 0x0a, -8, 0 }, { 0xbf, 0xa1, 0, 0 }, { 0x07, 1, 0, -8 },
	{ 0xb7, 2, 0, 4 }, { 0x85, 0, 0, 113 }, { 0x61, 0xa0, -8, 0 }, { 0x95, 0, 0, 0 },
};

static struct attached {
	char *name, *kinds;
	u64 id, site, trampoline, programs[MAX_PROGRAMS];
	int nr, fds[2 * MAX_PROGRAMS], nr_fds;
} wave[MAX_WAVE];
static u64 nr_wave;
static int peeker;

static long open_file(const char *path, int flags)
{
	return sys(SYS_OPENAT, AT_FDCWD, (long)path, flags, 0, 0, 0);
}

static void write_file(const char *path, const char *digit)
{
	long fd = open_file(path, O_WRONLY);

	if (fd < 0)
		return;
	sys(SYS_WRITE, fd, (long)digit, 1, 0, 0, 0);
	sys(SYS_CLOSE, fd, 0, 0, 0, 0, 0);
}

static long bpf(int command, void *attributes, u64 size)
{
	return sys(SYS_BPF, command, (long)attributes, size, 0, 0, 0);
}

static long load(u64 type, const struct insn *insns, u64 count, u64 attach_type, u64 id)
{
	/* prog_type, insn_cnt; insns; license; ...; at 64 and 104 in their upper halves expected_attach_type and attach_btf_id */
	u64 attributes[15] = { type | count << 32, (u64)insns, (u64)"GPL" };

	attributes[8] = attach_type << 32;
	attributes[13] = id << 32;
	return bpf(BPF_PROG_LOAD, attributes, sizeof(attributes));
}

/* Where a program's code begins. */
static u64 address_of(u64 fd)
{
	static u64 info[16];
	u64 address = 0, attributes[2] = { fd | sizeof(info) << 32, (u64)info };

	memset(info, 0, sizeof(info));
	info[13] = 1; /* nr_jited_ksyms */
	info[14] = (u64)&address;
	bpf(BPF_OBJ_GET_INFO_BY_FD, attributes, sizeof(attributes));
	return address;
}

static void put_bytes(const char *word, u64 address, u64 size)
{
	put_word(word);
	put_char(' ');
	for (u64 at = 0; at < size; at += 4) {
		u64 context = address + at, attributes[10] = { peeker };

		attributes[5] = sizeof(context); /* ctx_size_in */
		attributes[6] = (u64)&context;
		bpf(BPF_PROG_TEST_RUN, attributes, sizeof(attributes));
		for (int i = 0; i < 4; i++) {
			u8 byte = attributes[0] >> (32 + 8 * i); /* retval is the upper half */

			put_char("0123456789abcdef"[byte >> 4]);
			put_char("0123456789abcdef"[byte & 15]);
		}
	}
	end_line();
}

static void failed(struct attached *a, const char *what, long error)
{
	put_word("failed ");
	put_word(a->name);
	put_name(a->kinds);
	put_name(what);
	put_number(-error);
	end_line();
}

static int attach(struct attached *a)
{
	for (char *kind = a->kinds; *kind; kind++) {
		u64 type = *kind == 'e' ? FENTRY : *kind == 'x' ? FEXIT : MODIFY_RETURN;
		long program = load(TRACING, nothing, 2, type, a->id), link;
		u64 attributes[2] = { 0, program };

		if (program < 0) {
			failed(a, "load", program);
			return 0;
		}
		a->fds[a->nr_fds++] = program;
		a->programs[a->nr++] = address_of(program);
		link = bpf(BPF_RAW_TRACEPOINT_OPEN, attributes, sizeof(attributes));
		if (link < 0) {
			failed(a, "attach", link);
			return 0;
		}
		a->fds[a->nr_fds++] = link;
	}
	return 1;
}

/* A line of /proc/kallsyms: "ADDRESS TYPE bpf_trampoline_KEY [bpf]", where the key's lower half is the function's id. Of a function's
 * trampolines the newest one is the last. */
static void look_at(char *line)
{
	static const char prefix[] = "bpf_trampoline_";
	char *name = line + 19, *p;
	u64 address = 0, key = 0;

	for (p = line; p < name && *p; p++)
		;
	if (p < name)
		return;
	for (const char *q = prefix; *q; q++, p++)
		if (*p != *q)
			return;
	for (; *p >= '0' && *p <= '9'; p++)
		key = 10 * key + *p - '0';
	for (int i = 0; i < 16; i++)
		address = address << 4 | digit(line[i]);
	for (u64 i = 0; i < nr_wave; i++)
		if (key && wave[i].id == (key & 0x7fffffff))
			wave[i].trampoline = address;
}

static void find_trampolines(void)
{
	static char buffer[1 << 16], line[1 << 10];
	long fd = open_file("/proc/kallsyms", 0), n;
	u64 used = 0;

	while ((n = sys(SYS_READ, fd, (long)buffer, sizeof(buffer), 0, 0, 0)) > 0)
		for (long i = 0; i < n; i++) {
			if (buffer[i] == '\n') {
				line[used] = 0;
				look_at(line);
				used = 0;
			} else if (used < sizeof(line) - 1) {
				line[used++] = buffer[i];
			}
		}
	sys(SYS_CLOSE, fd, 0, 0, 0, 0, 0);
}

/* Write what the functions of this wave have now, and detach. */
static void end_wave(void)
{
	find_trampolines();
	for (struct attached *a = wave; a < wave + nr_wave; a++) {
		if (a->trampoline) {
			put_word("trampoline ");
			put_word(a->name);
			put_name(a->kinds);
			put_number(a->trampoline);
			for (int i = 0; i < a->nr; i++)
				put_number(a->programs[i]);
			end_line();
			put_bytes("site", a->site, SITE_SIZE);
			put_bytes("code", a->trampoline, CODE_SIZE);
		} else if (a->id) {
			failed(a, "find", 0);
		}
		while (a->nr_fds)
			sys(SYS_CLOSE, a->fds[--a->nr_fds], 0, 0, 0, 0, 0);
	}
	flush();
	nr_wave = 0;
}

static void put_version(void)
{
	static char text[512];
	long fd = open_file("/proc/version", 0), n = sys(SYS_READ, fd, (long)text, sizeof(text) - 1, 0, 0, 0);

	text[n > 0 ? n : 0] = 0;
	put_word("\nversion "); /* firmware may have begun a line */
	put_word(text); /* with the line's end */
	sys(SYS_CLOSE, fd, 0, 0, 0, 0, 0);
}

void child(void)
{
	static char plan[MAX_PLAN];
	long fd;

	sys(SYS_MOUNT, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0);
	write_file("/proc/sys/kernel/printk", "1");
	write_file("/proc/sys/kernel/kptr_restrict", "0");
	write_file("/proc/sys/net/core/bpf_jit_enable", "1");
	write_file("/proc/sys/net/core/bpf_jit_kallsyms", "1");
	put_version();
	peeker = load(RAW_TRACEPOINT, peek, sizeof(peek) / sizeof(*peek), 0, 0);
	fd = open_file("/plan", 0);
	sys(SYS_READ, fd, (long)plan, sizeof(plan) - 1, 0, 0, 0);
	in = plan;
	for (char *name = next_word(); *name; name = next_word()) {
		struct attached *a = wave + nr_wave;

		if (same(name, "-")) {
			end_wave();
			continue;
		}
		memset(a, 0, sizeof(*a));
		a->name = name;
		a->kinds = next_word();
		a->id = next_number();
		a->site = next_number();
		nr_wave++;
		if (!attach(a))
			a->id = 0; /* which is no function's */
	}
	put_word("end\n");
	flush();
	sys(SYS_IOCTL, 1, TCSBRK, 1, 0, 0, 0); /* until the console has all of it */
	sys(SYS_REBOOT, 0xfee1dead, 672274793, POWER_OFF, 0, 0, 0);
}
