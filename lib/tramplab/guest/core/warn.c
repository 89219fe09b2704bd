/* Warnings; see LAB_WARN(). */
#include "lab.h"

#pragma clang section text = ".kretprobe"

unsigned long lab_warnings __attribute__((section(".late_data")));

void lab_warn(void)
{
	lab_warnings += 1;
}
