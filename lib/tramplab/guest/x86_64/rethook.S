#include "asm.h"

#ifdef CONFIG_RETHOOK
/*
 * Where a function with a hooked return comes back to. Stands for arch_rethook_trampoline, x86-64, v5.18 to v7.2: a full pt_regs, on
 * top of it a word that becomes the way back. Flags are popped from the slot of ss, to where the callback copies them.
 */
FUNCTION(arch_rethook_trampoline, .text.return)
	pushq	$arch_rethook_trampoline
	pushq	$0x18				/* ss */
	pushq	%rsp
	pushfq
	subq	$24, %rsp			/* cs, ip, orig_ax */
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
	call	arch_rethook_trampoline_callback
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
	addq	$24, %rsp
	addq	$16, %rsp			/* flags, sp */
	popfq
	ret
END(arch_rethook_trampoline)
#endif
