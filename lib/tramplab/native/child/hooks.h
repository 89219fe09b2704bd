/* The hooks, as the parent tells them: the bytes that each changes in memory, and the words in which its calls are counted. */
#ifndef CHILD_HOOKS_H
#define CHILD_HOOKS_H

#include "memory.h"

enum { MAX_HOOKS = 256, MAX_PATCHES = 1 << 16, MAX_WATCHED = 1 << 14 };

struct patch {
	u64 address, size;
	u8 *bytes;
};

static struct hook {
	char *name;
	u64 calls, batch; /* calls so far, and calls in one batch */
	struct patch *patches;
	u64 nr_patches, **watched, *seen, nr_watched;
} hooks[MAX_HOOKS], *running;
static u64 nr_hooks;

static struct patch patches[MAX_PATCHES];
static u64 *watched[MAX_WATCHED], seen[MAX_WATCHED];
static u64 nr_patches, nr_watched;

static void add_patch(struct hook *h)
{
	struct patch *p = &patches[nr_patches++];
	u64 address = next_number();

	if (nr_patches == MAX_PATCHES)
		refused("input", nr_patches, 0);
	p->address = address;
	p->bytes = next_bytes(&p->size);
	h->nr_patches++;
}

static struct hook *add_hook(void)
{
	struct hook *h = &hooks[nr_hooks++];

	if (nr_hooks == MAX_HOOKS)
		refused("input", nr_hooks, 0);
	h->name = next_word();
	h->patches = patches + nr_patches;
	h->watched = watched + nr_watched;
	h->seen = seen + nr_watched;
	return h;
}

static void add_watched(struct hook *h)
{
	watched[nr_watched++] = (u64 *)next_number();
	if (nr_watched == MAX_WATCHED)
		refused("input", nr_watched, 0);
	h->nr_watched++;
}

#endif
