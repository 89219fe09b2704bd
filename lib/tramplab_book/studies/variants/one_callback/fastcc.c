/*
 * For a guest in which this stands behind functions.c: a function that only its own file calls, with more arguments than the standard
 * calling convention has registers for. Clang passes the further ones as it likes: on riscv64 in t3 to t6.
 */
static NOINLINE long twelve_own_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	return a * W1 + b * W2 + c * W3 + d * W4 + e * W5 + f * W6 + g * W7 + h * W8 + i * W9 + j * W10 + k * W11 + l * W12;
}

/* Where it is called: the further arguments are made of its own. */
long calls_own_args(long a, long b, long c, long d)
{
	return twelve_own_args(a, b, c, d, a ^ b, b ^ c, c ^ d, d ^ a, a + b, b + c, c + d, d + a) + 1;
}
