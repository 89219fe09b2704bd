#include "asm.h"
#include "all_regs.inc"

#ifdef CONFIG_RETHOOK
/*
 * Where a function with a hooked return comes back to. Stands for arch_rethook_trampoline, x86-64, v5.18 to v7.2: a full pt_regs, on
 * top of it a word that becomes the way back. Flags are popped from the slot of ss, to where the callback copies them.
 */
FUNCTION(arch_rethook_trampoline, .text.return)
	pushq	$arch_rethook_trampoline
#if defined(CONFIG_RETURN_SAVE_ARGS) || defined(CONFIG_RETURN_SAVE_VALUE)
	/* no kernel's: a pt_regs of which little is filled; what the callback adds to sp is taken off it before */
	subq	$SIZEOF_pt_regs, %rsp
	movq	%rax, OFF_pt_regs_ax(%rsp)
	movq	%rdx, OFF_pt_regs_dx(%rsp)
	movq	%rbp, OFF_pt_regs_bp(%rsp)
	leaq	(SIZEOF_pt_regs - 8)(%rsp), %rax
	movq	%rax, OFF_pt_regs_sp(%rsp)
#ifdef CONFIG_RETURN_SAVE_ARGS
	movq	%rcx, OFF_pt_regs_cx(%rsp)
	movq	%rsi, OFF_pt_regs_si(%rsp)
	movq	%rdi, OFF_pt_regs_di(%rsp)
	movq	%r8, OFF_pt_regs_r8(%rsp)
	movq	%r9, OFF_pt_regs_r9(%rsp)
#endif
	movq	%rsp, %rdi
	call	arch_rethook_trampoline_callback
#ifdef CONFIG_RETURN_SAVE_ARGS
	movq	OFF_pt_regs_r9(%rsp), %r9
	movq	OFF_pt_regs_r8(%rsp), %r8
	movq	OFF_pt_regs_di(%rsp), %rdi
	movq	OFF_pt_regs_si(%rsp), %rsi
	movq	OFF_pt_regs_cx(%rsp), %rcx
#endif
	movq	OFF_pt_regs_dx(%rsp), %rdx
	movq	OFF_pt_regs_ax(%rsp), %rax
	addq	$SIZEOF_pt_regs, %rsp
#else
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
#endif
	ret
END(arch_rethook_trampoline)
#endif

#if defined(CONFIG_KRETPROBES) && !defined(CONFIG_KRETPROBE_ON_RETHOOK)
/*
 * The same of a kretprobe that is on no return hook. Stands for __kretprobe_trampoline, x86-64, v5.17: the word that becomes the way
 * back is where ss would be. Flags are popped from the slot of sp, to where the callback copies them.
 */
FUNCTION(__kretprobe_trampoline, .text.return)
	pushq	$__kretprobe_trampoline
	pushq	%rsp
	pushfq
	subq	$24, %rsp			/* cs, ip, orig_ax */
	push_regs
	movq	%rsp, %rdi
	call	trampoline_probe_handler
	pop_regs
	addq	$24, %rsp
	addq	$8, %rsp			/* flags */
	popfq
	ret
END(__kretprobe_trampoline)
#endif
