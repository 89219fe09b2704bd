/* Files: written, read by line, and loaded. */
#ifndef INIT_FILES_H
#define INIT_FILES_H

#include "kernel.h"
#include "text.h"

enum { AT_FDCWD = -100, AT_REMOVEDIR = 0x200, O_WRONLY = 1, O_TRUNC = 01000, O_APPEND = 02000, TRIES = 100 };
enum { IGNORE_MODVERSIONS = 1 }; /* include/uapi/linux/module.h */

static u64 length(const char *s)
{
	u64 n = 0;

	while (s[n])
		n++;
	return n;
}

static long open_file(const char *path, int flags)
{
	return call(SYS_OPENAT, AT_FDCWD, (long)path, flags, 0, 0);
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

static u64 there;

static void count_wanted(const char *line)
{
	there += has(line, wanted);
}

static long until_gone(const char *path, const char *word)
{
	long error;

	wanted = word;
	for (there = 0; (error = each_line(path, count_wanted)) >= 0 && there; there = 0)
		sleep_for(20);
	return error;
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

#endif
