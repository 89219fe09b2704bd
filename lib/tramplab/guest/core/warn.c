/* Warnings, which are counted and passed by, and what a kernel does not survive. */
#include "lab.h"

#pragma clang section text = ".kretprobe"

unsigned long lab_warnings __attribute__((section(".late_data")));
unsigned long lab_panics __attribute__((section(".late_data")));

void lab_warn(void)
{
	lab_warnings += 1;
}

void panic(void)
{
	lab_panics += 1;
	__builtin_trap();
}
