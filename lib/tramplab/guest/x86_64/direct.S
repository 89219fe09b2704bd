#include "asm.h"

/*
 * @trampoline lab_direct_near
 * stands for: the trampoline of a direct call, as a module or BPF would supply it, x86-64, since v5.5
 * saves: rdi rsi rdx rcx r8 r9
 * frame: 48 bytes, 48 written
 * differs: saves all six argument registers whatever the function takes, because it is one stub for all functions.
 *
 * Entered from the patch site: (rsp) leads back into the traced function, (rsp + 8) to its caller. The far twin is the
 * same code at the other end of what a kernel's text and modules span.
 */
.macro direct_stub callback
#ifdef CONFIG_X86_KERNEL_IBT
	endbr64
#endif
	subq	$48, %rsp
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	call	\callback
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	addq	$48, %rsp
	ret
.endm

FUNCTION(lab_direct_near, .text.trampoline)
	direct_stub lab_direct_callback
END(lab_direct_near)

FUNCTION(lab_direct_near_observe, .text.trampoline)
	direct_stub lab_observe_direct_clobber
END(lab_direct_near_observe)

/* Behind all other text, so that nothing moves for them. */
FUNCTION(lab_direct_reenter, .text.stub)
	direct_stub lab_direct_callback_reenter
END(lab_direct_reenter)

FUNCTION(lab_direct_reenter_through, .text.stub)
	direct_stub lab_direct_callback_reenter_through
END(lab_direct_reenter_through)

FUNCTION(lab_direct_far, .far.trampoline)
	direct_stub lab_direct_callback_far
END(lab_direct_far)

FUNCTION(lab_direct_far_observe, .far.trampoline)
	direct_stub lab_observe_direct_clobber
END(lab_direct_far_observe)

/* The far twin of lab_direct_callback(). */
FUNCTION(lab_direct_callback_far, .far.callback)
	incq	lab_direct_hits(%rip)
	ret
END(lab_direct_callback_far)
