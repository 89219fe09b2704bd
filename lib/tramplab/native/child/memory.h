/* The guest's memory in this process: mapped at its own addresses, text never writable and executable at once. */
#ifndef CHILD_MEMORY_H
#define CHILD_MEMORY_H

#include "text.h"

enum { PROT_READ = 1, PROT_WRITE = 2, PROT_EXEC = 4 };
enum { MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20, MAP_NORESERVE = 0x4000, MAP_FIXED_NOREPLACE = 0x100000 };
enum { MAX_MAPS = 32, EEXIST = 17 };

static struct map {
	u64 address, size;
	_Bool text, open;
} maps[MAX_MAPS];
static u64 nr_maps;

static void leave(int status)
{
	flush();
	sys(SYS_EXIT_GROUP, status, 0, 0, 0, 0, 0);
}

/* "refused WHAT ADDRESS ERRNO" and the end. */
static void refused(const char *what, u64 address, long result)
{
	put_word("refused");
	put_name(what);
	put_number(address);
	put_number(-result);
	end_line();
	leave(2);
}

static void *reserve(u64 size)
{
	long p = sys(SYS_MMAP, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p < 0 && p > -4096)
		refused("buffer", size, p);
	return (void *)p;
}

static void map(u64 address, u64 size, _Bool text)
{
	long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	long p = sys(SYS_MMAP, address, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (p != (long)address) /* a kernel before v4.17 takes the address for a hint */
		refused("map", address, p < 0 && p > -4096 ? p : -EEXIST);
	if (nr_maps == MAX_MAPS)
		refused("map", address, -EEXIST);
	maps[nr_maps++] = (struct map){ address, size, text, text };
}

static void protect(struct map *m, long protection)
{
	long result = sys(SYS_MPROTECT, m->address, m->size, protection, 0, 0, 0);

	if (result)
		refused("protection", m->address, result);
	m->open = !(protection & PROT_EXEC);
}

/* Write memory; text becomes writable for it and stays so until close_text(). */
static void write_memory(u64 address, const u8 *bytes, u64 size)
{
	u8 *to = (u8 *)address;

	for (struct map *m = maps; m < maps + nr_maps; m++)
		if (m->text && !m->open && address - m->address < m->size)
			protect(m, PROT_READ | PROT_WRITE);
	for (u64 i = 0; i < size; i++)
		to[i] = bytes[i];
}

/* All text is executable, and what was written is what will be fetched. */
static void close_text(void)
{
	for (struct map *m = maps; m < maps + nr_maps; m++)
		if (m->text && m->open) {
			protect(m, PROT_READ | PROT_EXEC);
			arch_sync_text(m->address, m->address + m->size);
		}
}

#endif
