/*
 * What live patching puts in place of the traced functions: new_NAME for NAME, with the same arguments and another
 * result. Not traced; in code of their own behind everything else, as a module's would be.
 */
#include "lab.h"

#pragma clang section text = ".replacement"

#define NEW (1L << 40)

struct lab_pair { long first, second; };
struct lab_triple { long first, second, third; };

extern long lab_sink;

long new_no_args(void)
{
	return lab_sink + NEW;
}

long new_one_arg(long a)
{
	return a * 29 + NEW;
}

long new_two_args(long a, long b)
{
	return a * 29 + b * 31 + NEW;
}

long new_three_args(long a, long b, long c)
{
	return a * 29 + b * 31 + c * 37 + NEW;
}

long new_four_args(long a, long b, long c, long d)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + NEW;
}

long new_five_args(long a, long b, long c, long d, long e)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + NEW;
}

long new_six_args(long a, long b, long c, long d, long e, long f)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + NEW;
}

long new_seven_args(long a, long b, long c, long d, long e, long f, long g)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + g * 53 + NEW;
}

long new_eight_args(long a, long b, long c, long d, long e, long f, long g, long h)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + g * 53 + h * 59 + NEW;
}

long new_pointer_args(const long *from, long *to)
{
	long value = *from;

	*to = value + NEW;
	return value * 29 + NEW;
}

long new_calls_others(long a, long b, long c)
{
	return a * 29 + b * 31 + c * 37 + NEW;
}

long new_tail_call(long a, long b)
{
	return a * 29 + b * 31 + NEW;
}

struct lab_pair new_struct_return(long a, long b)
{
	return (struct lab_pair){ a * 29 + NEW, b * 31 + NEW };
}

struct lab_triple new_big_struct_return(long a, long b)
{
	return (struct lab_triple){ a * 29 + NEW, b * 31 + NEW, a + b };
}

long new_struct_arg(struct lab_pair p, long c)
{
	return p.first * 29 + p.second * 31 + c * 37 + NEW;
}

long new_nine_args(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + g * 53 + h * 59 + i * 61 + NEW;
}

long new_ten_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + g * 53 + h * 59 + i * 61 + j * 67 + NEW;
}

long new_eleven_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + g * 53 + h * 59 + i * 61 + j * 67 + k * 71 + NEW;
}

long new_twelve_args(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	return a * 29 + b * 31 + c * 37 + d * 41 + e * 43 + f * 47 + g * 53 + h * 59 + i * 61 + j * 67 + k * 71 + l * 73 + NEW;
}
