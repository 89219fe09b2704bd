#include "asm.h"

/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, x86-64, since v5.11
 * saves: rax rcx rdx rsi rdi r8 r9 rbp
 * frame: 168 bytes, 96 written
 * frame with CONFIG_FRAME_POINTER: 208 bytes, 136 written
 * differs: no unwinder annotations, because they are not run; mitigations are as on a booted machine, because it needs none, so
 *   a call-depth slot is one ten-byte NOP. With CALL_OPS, which no x86-64 kernel has, it takes the ops from beside the site and
 *   calls the ops' function.
 *
 * The frame is a pt_regs of which 12 slots are written; cs = 0 says so to whoever asks for full registers. The
 * stretch from ftrace_caller to ftrace_caller_end is also the template of the per-ops trampoline, in which
 * ftrace_caller_op_ptr loads the ops' own address and ftrace_call calls the ops' own function.
 */

#define FRAME SIZEOF_pt_regs
#define R(reg) OFF_pt_regs_##reg(%rsp)

#ifdef CONFIG_FRAME_POINTER
#define FIXUP 40
#else
#define FIXUP 0
#endif

/*
 * The ops, in rdx; its own function is called. With CALL_OPS (hypothetical on x86-64) it is in the 8-byte word before the
 * function, which is 8-byte aligned: rdi, the patch site, is the function's first byte or the one behind its 4-byte
 * ENDBR, so rounded down it is the former either way. The pointer is loaded once, so ops and function go together.
 */
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
.macro load_ops label
	movq	%rdi, %rdx
	andq	$-8, %rdx
	movq	-8(%rdx), %rdx
.endm
.macro call_tracer label
	call	*OFF_ftrace_ops_func(%rdx)
.endm
#else
.macro load_ops label
LABEL(\label)
	movq	function_trace_op(%rip), %rdx
.endm
.macro call_tracer label
LABEL(\label)
	call	ftrace_stub
.endm
#endif

.macro landing_pad
#ifdef CONFIG_X86_TRAMPOLINE_ENDBR
	endbr64
#endif
.endm

/* The last instruction: up to v6.0 both variants shared their exit, one jump away. */
.macro leave_trampoline
#ifdef CONFIG_X86_SHARED_EPILOGUE
	jmp	ftrace_epilogue
#else
	ret
#endif
.endm

/* Two frame records: the one the traced function has not made yet, and the trampoline's own. */
.macro frame_pointer_fixup flags
#ifdef CONFIG_FRAME_POINTER
	pushq	%rbp
	pushq	(16 + \flags)(%rsp)
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	(24 + \flags)(%rsp)
	pushq	%rbp
	movq	%rsp, %rbp
#endif
.endm

/* What both variants write first: the argument registers, rax, rbp, and the frame's ip. */
.macro save_args flags
	subq	$FRAME, %rsp
	movq	%rax, R(ax)
	movq	%rcx, R(cx)
	movq	%rdx, R(dx)
	movq	%rsi, R(si)
	movq	%rdi, R(di)
	movq	%r8, R(r8)
	movq	%r9, R(r9)
	movq	$0, R(orig_ax)
#ifdef CONFIG_FRAME_POINTER
	movq	(FRAME + 32)(%rsp), %rdx
#else
	movq	%rbp, %rdx
#endif
	movq	%rdx, R(bp)
	movq	(FRAME + FIXUP + \flags + 8)(%rsp), %rsi	/* parent ip */
	movq	(FRAME + FIXUP + \flags)(%rsp), %rdi		/* back into the traced function */
	movq	%rdi, R(ip)
	subq	$5, %rdi					/* ip: the patch site */
#ifdef CONFIG_X86_CALL_DEPTH_SLOTS
	.nops	10
#endif
.endm

/* The stack pointer as the traced function had it. */
.macro save_sp flags
	leaq	(FRAME + FIXUP + \flags + 8)(%rsp), %rcx
	movq	%rcx, R(sp)
.endm

.macro restore_args
	movq	R(bp), %rbp
	movq	R(r9), %r9
	movq	R(r8), %r8
	movq	R(di), %rdi
	movq	R(si), %rsi
	movq	R(dx), %rdx
	movq	R(cx), %rcx
	movq	R(ax), %rax
.endm

TRAMPOLINE(ftrace_caller)
	landing_pad
	frame_pointer_fixup 0
	save_args 0
	save_sp 0
	load_ops ftrace_caller_op_ptr
	leaq	(%rsp), %rcx
	movq	$0, R(cs)
#ifdef CONFIG_X86_CALL_DEPTH_SLOTS
	.nops	10
#endif
	call_tracer ftrace_call
	movq	R(ip), %rax				/* a callback may have changed where to go on */
	movq	%rax, (FRAME + FIXUP)(%rsp)
	restore_args
	addq	$(FRAME + FIXUP), %rsp
LABEL(ftrace_caller_end)
	leave_trampoline
END(ftrace_caller)

/*
 * @trampoline ftrace_regs_caller
 * stands for: ftrace_regs_caller, x86-64, since v5.11
 * saves: rax rcx rdx rsi rdi r8 r9 rbp r10 r11 r12 r13 r14 r15 rbx
 * frame: 176 bytes, 176 written
 * frame with CONFIG_FRAME_POINTER: 216 bytes, 216 written
 * differs: no unwinder annotations, because they are not run; mitigations are as on a booted machine, because it needs none.
 *
 * All 21 slots. Every register but r11 comes back from the frame, so a callback may change them; the flags are pushed
 * first, before any arithmetic. orig_ax, zero unless a callback sets it, is the direct call to leave through.
 */
TRAMPOLINE(ftrace_regs_caller)
	landing_pad
	pushfq
	frame_pointer_fixup 8
	save_args 8
	load_ops ftrace_regs_caller_op_ptr
	movq	%r15, R(r15)
	movq	%r14, R(r14)
	movq	%r13, R(r13)
	movq	%r12, R(r12)
	movq	%r11, R(r11)
	movq	%r10, R(r10)
	movq	%rbx, R(bx)
	movq	(FRAME + FIXUP)(%rsp), %rcx
	movq	%rcx, R(flags)
	movq	$0x18, %rcx
	movq	%rcx, R(ss)
	movq	$0x10, %rcx
	movq	%rcx, R(cs)
	save_sp 8
	leaq	(%rsp), %rcx
#ifdef CONFIG_X86_CALL_DEPTH_SLOTS
	.nops	10
#endif
	call_tracer ftrace_regs_call
	movq	R(flags), %rax
	movq	%rax, (FRAME + FIXUP)(%rsp)
	movq	R(ip), %rax
	movq	%rax, (FRAME + FIXUP + 8)(%rsp)
	movq	R(r15), %r15
	movq	R(r14), %r14
	movq	R(r13), %r13
	movq	R(r12), %r12
	movq	R(r10), %r10
	movq	R(bx), %rbx
	movq	R(orig_ax), %rax
	movq	%rax, R(ss)				/* as the kernel does; nothing reads it there */
	testq	%rax, %rax
LABEL(ftrace_regs_caller_jmp)
	jnz	1f
	restore_args
	addq	$(FRAME + FIXUP), %rsp
	popfq
LABEL(ftrace_regs_caller_end)
	leave_trampoline

	/*
	 * Leave through the direct call: it is entered as if the patch site had called it, so the address goes where
	 * the flags were pushed and the flags one slot lower, into the slot that popfq then reaches first.
	 */
1:
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_JMP
	/* An odd address is that of a trampoline which is jumped to: it takes the place of the way back into the function. */
	testb	$1, %al
	jz	3f
	andq	$-2, %rax
	movq	%rax, (FRAME + FIXUP + 8)(%rsp)
	restore_args
	addq	$(FRAME + FIXUP), %rsp
	popfq
	ret
3:
#endif
	movq	(FRAME + FIXUP)(%rsp), %rcx
	movq	%rax, (FRAME + FIXUP)(%rsp)
	movq	%rcx, (FRAME + FIXUP - 8)(%rsp)
	restore_args
	addq	$(FRAME + FIXUP - 8), %rsp
	popfq
#ifdef CONFIG_X86_DIRECT_REBALANCE
	call	2f				/* pairs with the ret below on the return stack; */
	int3					/* a call to the very next instruction would push nothing there */
2:	addq	$8, %rsp
#endif
	ret
END(ftrace_regs_caller)

#ifdef CONFIG_X86_SHARED_EPILOGUE
TRAMPOLINE(ftrace_epilogue)
	ret
END(ftrace_epilogue)
#endif

/* Both a callback that does nothing and what an idle trampoline calls. */
FUNCTION(ftrace_stub, .text.core)
#ifdef CONFIG_X86_KERNEL_IBT
	endbr64
#endif
	ret
END(ftrace_stub)
