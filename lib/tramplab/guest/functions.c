/*
 * The traced functions. Each result depends on every argument, with a weight of its own, so that two swapped or lost
 * arguments cannot cancel out. They are compiled with the patch site in front; everything else is not.
 */
#include "jump.h"
#include "lab.h"

#define W1 3
#define W2 5
#define W3 7
#define W4 11
#define W5 13
#define W6 17
#define W7 19
#define W8 23
#define W9 29
#define W10 31
#define W11 37
#define W12 41

/* Called by other traced functions below; inlined there, nothing nested would be traced. */
#define NOINLINE __attribute__((noinline))

struct lab_pair { long first, second; };
struct lab_triple { long first, second, third; };
struct lab_uneven { unsigned int first, second, third; };

long lab_sink = 1;

long no_args(void)
{
	return lab_sink + 41;
}

long one_arg(long a)
{
	return a * W1;
}

NOINLINE long two_args(long a, long b)
{
	return a * W1 + b * W2;
}

NOINLINE long three_args(long a, long b, long c)
{
	return a * W1 + b * W2 + c * W3;
}

long four_args(long a, long b, long c, long d)
{
	return a * W1 + b * W2 + c * W3 + d * W4;
}

long five_args(long a, long b, long c, long d, long e)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5;
}

long six_args(long a, long b, long c, long d, long e, long f)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6;
}

long seven_args(long a, long b, long c, long d, long e, long f, long g)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7;
}

long eight_args(long a, long b, long c, long d, long e, long f, long g, long h)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8;
}

/* Reads through one pointer, writes through the other. */
long pointer_args(const long *from, long *to)
{
	*to = *from * W1;
	return *from + *to;
}

/* Calls two other traced functions and needs values of its own across the calls. */
long calls_others(long a, long b, long c)
{
	long left = two_args(a, b);

	return left * W4 + three_args(c, left, a);
}

/* Leaves by a jump: the callee returns to this function's caller. */
long tail_call(long a, long b)
{
	__attribute__((musttail)) return two_args(b, a);
}

/* Sixteen bytes: returned in two registers. */
struct lab_pair struct_return(long a, long b)
{
	return (struct lab_pair){ a * W1 + b, b * W2 + a };
}

/* Twenty-four bytes: written through a pointer that the caller passes beside the arguments. */
struct lab_triple big_struct_return(long a, long b)
{
	return (struct lab_triple){ a * W1 + b, b * W2 + a, a - b };
}

/* A struct by value beside a scalar. */
long struct_arg(struct lab_pair p, long c)
{
	return p.first * W1 + p.second * W2 + c * W3;
}

/* Calls itself as a script says: the number of calls, then the same for each of them. Returns where the script goes on. */
NOINLINE const long *call_tree(const long *script)
{
	long calls = *script++;

	while (calls-- > 0)
		script = call_tree(script);
	return script;
}

/* Where left_early() goes on when it does not return: in goes_on(), whatever lies in between. */
unsigned long lab_jump_buffer[LAB_JUMP_WORDS];

/* Odd, it leaves its caller and that one's behind; even, it returns. */
NOINLINE long left_early(long a, long b)
{
	if (a & 1)
		lab_jump(lab_jump_buffer, b * W2 + 1);
	return a * W1 + b * W2;
}

NOINLINE long passed_over(long a, long b)
{
	return left_early(a, b) * W3 + a;
}

NOINLINE long goes_on(long a, long b)
{
	long early = lab_remember(lab_jump_buffer);

	return early ? early * W4 + a : passed_over(a, b) * W5 + b;
}

/* More arguments than any ISA has registers for. */
long nine_args(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8 + i * W9;
}

long ten_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8 + i * W9 + j * W10;
}

long eleven_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8 + i * W9 + j * W10 + k * W11;
}

long twelve_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8 + i * W9 + j * W10 + k * W11 + l * W12;
}

/* On x86-64 the struct is on the stack, and the scalar after it in the register that is left. */
long struct_after_five(long a, long b, long c, long d, long e, struct lab_pair p, long f)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + p.first * W6 + p.second * W7 + f * W8;
}

/* On riscv64 half of the struct is in the register that is left; on arm64 that stays empty, and the scalar is on the stack, too. */
long struct_after_seven(long a, long b, long c, long d, long e, long f, long g, struct lab_pair p, long h)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + p.first * W8 + p.second * W9 + h * W10;
}

/* Arguments that do not fill their words, which are on the stack of x86-64 in one, and on that of every ISA in the other. */
long int_seventh(long a, long b, long c, long d, long e, long f, unsigned int g)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + (long)g * W7;
}

long uneven_ninth(long a, long b, long c, long d, long e, long f, long g, long h, struct lab_uneven u, unsigned short i)
{
	long words = a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8;

	return words + (long)u.first * W9 + (long)u.second * W10 + (long)u.third * W11 + i * W12;
}
