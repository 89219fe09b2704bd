/*
 * The guest's memory in this process: mapped at its own addresses, text never writable and executable at once. Once it is sealed,
 * each page is kept before the first write to it, whoever writes: what a hook and all of its calls changed is put back exactly.
 */
#ifndef CHILD_MEMORY_H
#define CHILD_MEMORY_H

#include "arch.h"
#include "text.h"

enum { PROT_READ = 1, PROT_WRITE = 2, PROT_EXEC = 4 };
enum { MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20, MAP_NORESERVE = 0x4000, MAP_FIXED_NOREPLACE = 0x100000 };
enum { MAX_MAPS = 32, EEXIST = 17 };

/* kept: a byte for each page, and whether `copy` has what it held when memory was sealed. */
static struct map {
	u64 address, size;
	_Bool text, open, *kept;
	u8 *copy;
} maps[MAX_MAPS];
static u64 nr_maps, page_size;
static _Bool sealed;

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
	maps[nr_maps++] = (struct map){ address, size, text, text, reserve(size / page_size), reserve(size) };
}

static void protect(u64 address, u64 size, long protection)
{
	long result = sys(SYS_MPROTECT, address, size, protection, 0, 0, 0);

	if (result)
		refused("protection", address, result);
}

/* Text becomes writable, and stays so until close_text(). */
static void open_text(struct map *m)
{
	if (m->text && !m->open)
		protect(m->address, m->size, PROT_READ | PROT_WRITE);
	m->open = m->text;
}

/* All text is executable, and what was written is what will be fetched. */
static void close_text(void)
{
	for (struct map *m = maps; m < maps + nr_maps; m++)
		if (m->text && m->open) {
			protect(m->address, m->size, PROT_READ | PROT_EXEC);
			arch_sync_text(m->address, m->address + m->size);
			m->open = 0;
		}
}

static void copy_page(void *to, const void *from)
{
	for (u64 i = 0; i < page_size / sizeof(u64); i++)
		((u64 *)to)[i] = ((const u64 *)from)[i];
}

/* From here on, what memory holds now is what put_back() puts back. Data cannot be written before its page is kept. */
static void seal(void)
{
	for (struct map *m = maps; m < maps + nr_maps; m++)
		if (!m->text)
			protect(m->address, m->size, PROT_READ);
	sealed = 1;
}

static struct map *map_of(u64 address)
{
	for (struct map *m = maps; m < maps + nr_maps; m++)
		if (address - m->address < m->size)
			return m;
	return 0;
}

/* Keep a page before the first write to it, for which data then is open; false if that was done before. */
static _Bool keep(struct map *m, u64 address)
{
	u64 n = (address - m->address) / page_size, page = m->address + n * page_size;

	if (m->kept[n])
		return 0;
	copy_page(m->copy + n * page_size, (void *)page);
	m->kept[n] = 1;
	if (!m->text)
		protect(page, page_size, PROT_READ | PROT_WRITE);
	return 1;
}

/* A write of the guest's to a page of data that had to be kept first: the write can be done again. */
static _Bool kept_now(u64 address)
{
	struct map *m = map_of(address);

	return sealed && m && !m->text && keep(m, address);
}

static void write_memory(u64 address, const u8 *bytes, u64 size)
{
	struct map *m = map_of(address);

	if (m)
		open_text(m);
	for (u64 page = address & -page_size; m && sealed && page < address + size; page += page_size)
		keep(m, page);
	for (u64 i = 0; i < size; i++)
		((u8 *)address)[i] = bytes[i];
}

/* All of memory holds again what it held when it was sealed. */
static void put_back(void)
{
	for (struct map *m = maps; m < maps + nr_maps; m++)
		for (u64 n = 0; n < m->size / page_size; n++)
			if (m->kept[n]) {
				open_text(m);
				copy_page((u8 *)m->address + n * page_size, m->copy + n * page_size);
			}
}

#endif
