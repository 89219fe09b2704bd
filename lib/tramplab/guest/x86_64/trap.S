#include "asm.h"
#include "all_regs.inc"

/*
 * Where INT3 leads: the CPU has pushed ss, rsp, rflags, cs and rip, on a stack aligned to 16. Stands for asm_exc_int3 as
 * entered from the kernel: the frame is made once more below a gap, so that an emulated call has room to push to.
 * Differs: no switch of gs, which an entry from user space makes, since nothing comes from there; no unwinder annotations and
 * nothing of Xen's, because neither is run.
 */
FUNCTION(lab_trap_entry, .text.entry)
#ifdef CONFIG_X86_KERNEL_IBT
	endbr64
#endif
	.nops	3				/* where SMAP would be closed */
	cld
	pushq	$-1				/* orig_ax: no error code */
	testb	$3, 16(%rsp)			/* cs: from user space? */
	jnz	lab_trap_unclaimed
	.rept	6
	pushq	5*8(%rsp)
	.endr
	push_regs
	call	lab_error_entry
	movq	%rsp, %rdi
	call	lab_trap
	testb	$3, OFF_pt_regs_cs(%rsp)
	jnz	lab_trap_unclaimed
	pop_regs
	addq	$8, %rsp
	testb	$4, 32(%rsp)			/* ss: a segment of a process's own? */
	jnz	lab_trap_unclaimed
LABEL(lab_trap_return)
	iretq
END(lab_trap_entry)

/*
 * Zero into every register: what was interrupted is to lead no speculation. Where it was the return from an exception, nothing is
 * right any more. Differs: the kernel saves the registers here, too, below the way back, and here the entry does, because it gives
 * them back.
 */
FUNCTION(lab_error_entry, .text.entry)
	.irp	r, edi, esi, edx, ecx, eax, r8d, r9d, r10d, r11d, ebx, r12d, r13d, r14d, r15d
	xorl	%\r, %\r
	.endr
	testb	$3, (OFF_pt_regs_cs + 8)(%rsp)
	jnz	lab_trap_unclaimed
	leaq	lab_trap_return(%rip), %rcx
	cmpq	%rcx, (OFF_pt_regs_ip + 8)(%rsp)
	je	lab_trap_unclaimed
	movl	%ecx, %eax			/* some CPUs leave only half of an address that IRET did not get to */
	cmpq	%rax, (OFF_pt_regs_ip + 8)(%rsp)
	je	lab_trap_unclaimed
	.nops	3				/* mitigations that this machine needs not */
	.nops	3
	.nops	3
	.nops	3
	ret
END(lab_error_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	ud2
END(lab_trap_unclaimed)
