/*
 * The bits of a word, from the lowest on. Stand for the kernel's for_each_set_bit() where a word is all there is, and for the
 * __ffs() that it takes.
 */
#ifndef LAB_BITS_H
#define LAB_BITS_H

#include "lab.h"

#define BITS_PER_LONG ((unsigned int)sizeof(long) * 8)

/* The lowest bit of a word that has one. */
static inline unsigned int __ffs(unsigned long word)
{
#ifdef __riscv
	/* A hart without Zbb has no instruction for it: kernels ask half by half there, and jump to that where it could have one. */
	unsigned int at = 0;

	asm goto(".option push\n\t.option norvc\n\tj %l0\n\t.option pop" : : : : halves);
halves:
	for (unsigned int half = BITS_PER_LONG / 2; half; half /= 2)
		if (!(word & ((1UL << half) - 1))) {
			at += half;
			word >>= half;
		}
	return at;
#else
	return __builtin_ctzl(word);
#endif
}

/* The lowest bit of a word that is not below `from`; BITS_PER_LONG if there is none. */
static inline unsigned int lab_next_bit(const unsigned long *word, unsigned int from)
{
	unsigned long left;

	if (from >= BITS_PER_LONG)
		return BITS_PER_LONG;
	left = *word & ~0UL << from;
	return left ? __ffs(left) : BITS_PER_LONG;
}

/* The word is read again for each of its bits. */
#define for_each_set_bit(bit, word) \
	for (unsigned int bit = lab_next_bit(&(word), 0); bit < BITS_PER_LONG; bit = lab_next_bit(&(word), bit + 1))

#endif
