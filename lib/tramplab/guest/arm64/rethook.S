#include "asm.h"
#include "all_regs.inc"

/* A process may read no state but the flags; one instruction stands for one. */
#ifdef CONFIG_LAB_USER
#define STATE(name) nzcv
#else
#define STATE(name) name
#endif

/* Comes back to who called the function, when the callback has said who: a full pt_regs with a frame record at x29's slot. */
.macro hooked_return callback
	sub	sp, sp, #SIZEOF_pt_regs
	x0_to_x29 stp
	add	x0, sp, #SIZEOF_pt_regs
	stp	x30, x0, [sp, #X(30)]
	mrs	x0, nzcv
	mrs	x1, STATE(daif)
	orr	x0, x0, x1
	mrs	x1, STATE(CurrentEL)
	orr	x0, x0, x1
	mrs	x1, STATE(SPSel)
	orr	x0, x0, x1
	stp	xzr, x0, [sp, #OFF_pt_regs_pc]
	add	x29, sp, #X(29)
	mov	x0, sp
	bl	\callback
	mov	x30, x0
	ldr	x0, [sp, #OFF_pt_regs_pstate]
	and	x0, x0, #0xf0000000
	msr	nzcv, x0
	x0_to_x29 ldp
	add	sp, sp, #SIZEOF_pt_regs
	ret
.endm

/* No kernel's: a pt_regs of which what a return value may be in is filled, or what an ftrace_regs has too. */
.macro hooked_return_partial callback
	sub	sp, sp, #SIZEOF_pt_regs
	stp	x0, x1, [sp, #X(0)]
	stp	x2, x3, [sp, #X(2)]
	stp	x4, x5, [sp, #X(4)]
	stp	x6, x7, [sp, #X(6)]
#ifdef CONFIG_RETURN_SAVE_ARGS
	str	x8, [sp, #X(8)]
	add	x0, sp, #SIZEOF_pt_regs
	stp	x30, x0, [sp, #X(30)]
	str	xzr, [sp, #OFF_pt_regs_pc]
#else
	str	x30, [sp, #X(30)]
#endif
	str	x29, [sp, #X(29)]
	add	x29, sp, #X(29)
	mov	x0, sp
	bl	\callback
	mov	x30, x0
	ldr	x29, [sp, #X(29)]
#ifdef CONFIG_RETURN_SAVE_ARGS
	ldr	x8, [sp, #X(8)]
#endif
	ldp	x6, x7, [sp, #X(6)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x0, x1, [sp, #X(0)]
	add	sp, sp, #SIZEOF_pt_regs
	ret
.endm

#ifdef CONFIG_RETHOOK
/*
 * Where a function with a hooked return comes back to. No kernel of the releases in which fprobes had return hooks has one on
 * arm64: this is built as its trampoline for kretprobes is (v5.17 to v6.1).
 */
FUNCTION(arch_rethook_trampoline, .text.return)
#if defined(CONFIG_RETURN_SAVE_ARGS) || defined(CONFIG_RETURN_SAVE_VALUE)
	hooked_return_partial arch_rethook_trampoline_callback
#else
	hooked_return arch_rethook_trampoline_callback
#endif
END(arch_rethook_trampoline)
#endif

#if defined(CONFIG_KRETPROBES) && !defined(CONFIG_KRETPROBE_ON_RETHOOK)
/*
 * The same of a kretprobe. Stands for __kretprobe_trampoline: in Debian's 6.1 a pt_regs is saved, in 6.12 and 7.2 it is an exception
 * that does, and whose handler sets pc; nobody comes to the second instruction.
 */
FUNCTION(__kretprobe_trampoline, .text.return)
#if defined(CONFIG_RETURN_SAVE_ARGS) || defined(CONFIG_RETURN_SAVE_VALUE)
	hooked_return_partial trampoline_probe_handler
#elif defined(CONFIG_KRETPROBE_BRK)
	brk	#7
	brk	#0x800
#else
	hooked_return trampoline_probe_handler
#endif
END(__kretprobe_trampoline)
#endif
