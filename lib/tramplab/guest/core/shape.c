/*
 * Room for one trampoline of a given shape (trampolines/shapes), behind the others and in the padding of their page, so that
 * it moves nothing and lies as near to the patch sites as any.
 */
#include "lab.h"

asm(".section .text.shape, \"ax\"\n"
    "	.balign 64\n"
    "	.globl lab_shape\n"
    "	.type lab_shape, %function\n"
    "lab_shape:\n"
    "	.zero 1024\n"
    "	.size lab_shape, . - lab_shape\n"
    "	.text\n");
