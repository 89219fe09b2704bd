#include "asm.h"
#include "all_regs.inc"

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
	push_regs
	movq	%rsp, %rdi
	call	arch_rethook_trampoline_callback
	pop_regs
	addq	$24, %rsp
	addq	$16, %rsp			/* flags, sp */
	popfq
	ret
END(arch_rethook_trampoline)
#endif
