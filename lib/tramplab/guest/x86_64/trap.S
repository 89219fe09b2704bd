#include "asm.h"

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
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %rdi
	call	lab_trap
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	addq	$8, %rsp
LABEL(lab_trap_return)
	iretq
END(lab_trap_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	ud2
END(lab_trap_unclaimed)
