/* Assembly helpers shared by all ISAs. The OFF_ and SIZEOF_ constants come from the C compiler's own debug info. */
#ifndef LAB_ASM_H
#define LAB_ASM_H

#include "asm-offsets.h"

#define TRAMPOLINE(name) \
	.section .text.trampoline, "ax"; .balign 16; .globl name; .type name, %function; name:
#define FUNCTION(name, sect) \
	.section sect, "ax"; .balign 16; .globl name; .type name, %function; name:
#define END(name) .size name, . - name
#define LABEL(name) .globl name; name:

#endif
