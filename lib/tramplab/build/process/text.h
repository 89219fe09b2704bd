/* Reading words and writing lines: all numbers are hexadecimal, without 0x, as the parent writes and reads them. */
#ifndef PROCESS_TEXT_H
#define PROCESS_TEXT_H

#include "process.h"

/* What the compiler may call of its own accord. */
void *memset(void *to, int byte, u64 size)
{
	for (u64 i = 0; i < size; i++)
		((u8 *)to)[i] = byte;
	return to;
}

static char out[1 << 14];
static u64 out_used;

static void flush(void)
{
	u64 done = 0;

	while (done < out_used) {
		long n = sys(SYS_WRITE, 1, (long)out + done, out_used - done, 0, 0, 0);

		if (n <= 0)
			break;
		done += n;
	}
	out_used = 0;
}

static void put_char(char c)
{
	if (out_used == sizeof(out))
		flush();
	out[out_used++] = c;
}

static void put_word(const char *s)
{
	while (*s)
		put_char(*s++);
}

static void put_number(u64 n)
{
	int shift = 60;

	put_char(' ');
	while (shift && !(n >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		put_char("0123456789abcdef"[n >> shift & 15]);
}

/* The rest of a line that starts with put_word(): a name, if any, and the end. */
static void put_name(const char *name)
{
	put_char(' ');
	put_word(name);
}

static void end_line(void)
{
	put_char('\n');
}

/* The input, all of it in memory; words are cut out of it in place. */
static char *in;

static int blank(char c)
{
	return c == ' ' || c == '\n';
}

static char *next_word(void)
{
	char *word;

	while (blank(*in))
		in++;
	word = in;
	while (*in && !blank(*in))
		in++;
	if (*in)
		*in++ = 0;
	return word;
}

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static u64 next_number(void)
{
	u64 n = 0;

	for (char *w = next_word(); *w; w++)
		n = n << 4 | digit(*w);
	return n;
}

/* A word of hex digits as bytes, written over the word itself. */
static inline u8 *next_bytes(u64 *size)
{
	char *word = next_word();
	u8 *bytes = (u8 *)word;

	for (*size = 0; word[2 * *size]; (*size)++)
		bytes[*size] = digit(word[2 * *size]) << 4 | digit(word[2 * *size + 1]);
	return bytes;
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

#endif
