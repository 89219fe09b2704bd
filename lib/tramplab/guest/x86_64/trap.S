#include "asm.h"
#include "all_regs.inc"

/*
 * Where INT3 leads: the CPU has pushed ss, rsp, rflags, cs and rip, on a stack aligned to 16. Stands for asm_exc_int3 as
 * entered from the kernel: the frame is made once more below a gap, so that an emulated call has room to push to.
 * Differs: no switch of gs, no stack of its own, no unwinder annotations.
 */
FUNCTION(lab_trap_entry, .text.entry)
	pushq	$-1				/* orig_ax: no error code */
	.rept	6
	pushq	5*8(%rsp)
	.endr
	push_regs
	movq	%rsp, %rdi
	call	lab_trap
	pop_regs
	addq	$8, %rsp
LABEL(lab_trap_return)
	iretq
END(lab_trap_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	ud2
END(lab_trap_unclaimed)
