/* BPF programs, the number that they share, and the kernel's memory as one of them reads it. */
#ifndef INIT_PROGRAMS_H
#define INIT_PROGRAMS_H

#include "files.h"

/* include/uapi/linux/bpf.h */
enum { MAP_CREATE = 0, MAP_LOOKUP = 1, PROG_LOAD = 5, PROG_TEST_RUN = 10, OBJ_GET_INFO_BY_FD = 15 };
enum { MAP_ARRAY = 2, RAW_TRACEPOINT = 17 };

static long map = -1, program = -1;

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

#endif
