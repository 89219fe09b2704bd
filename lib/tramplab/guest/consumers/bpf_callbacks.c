/*
 * BPF programs, as C: each gets the arguments of the traced function as an array, with their number in the word before it
 * and, where the trampoline calls the function itself, what it returned in the word behind it.
 */
#include "bpf.h"

unsigned long lab_bpf_hits;
/* What an fmod_ret program returns: the counting one the first, the observing one by its cookie. */
#define LAB_NR_VERDICTS 64
long lab_bpf_verdicts[LAB_NR_VERDICTS];

unsigned long lab_bpf_count(unsigned long *ctx)
{
	lab_bpf_hits += 1;
	return 0;
}

long lab_bpf_modify(unsigned long *ctx)
{
	lab_bpf_hits += 1;
	return lab_bpf_verdicts[0];
}

/* Writes down all it may see; the tests compare it with what was put in. */
#define LAB_NR_BPF_SEEN 64

/* Twelve arguments of two words, and what the function returned. */
#define LAB_NR_BPF_WORDS 25

struct lab_bpf_seen {
	unsigned long cookie, count;
	unsigned long words[LAB_NR_BPF_WORDS];
};

struct lab_bpf_seen lab_bpf_seen[LAB_NR_BPF_SEEN];
unsigned long lab_bpf_seen_count;

long lab_bpf_observe(unsigned long *ctx)
{
	struct lab_bpf_seen *seen = &lab_bpf_seen[lab_bpf_seen_count++ % LAB_NR_BPF_SEEN];

	seen->cookie = current->bpf_ctx ? current->bpf_ctx->bpf_cookie : 0;
	seen->count = ctx[-1];
	for (unsigned int i = 0; i <= seen->count && i < LAB_NR_BPF_WORDS; i++)
		seen->words[i] = ctx[i];
	return lab_bpf_verdicts[seen->cookie % LAB_NR_VERDICTS];
}
