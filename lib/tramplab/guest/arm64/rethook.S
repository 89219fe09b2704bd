#include "asm.h"
#include "all_regs.inc"

#ifdef CONFIG_RETHOOK
/* A process may read no state but the flags; one instruction stands for one. */
#ifdef CONFIG_LAB_USER
#define STATE(name) nzcv
#else
#define STATE(name) name
#endif

/*
 * Where a function with a hooked return comes back to. No kernel of the releases in which fprobes had return hooks has one on
 * arm64: this is built as its trampoline for kretprobes is (v5.17 to v6.1), a full pt_regs with a frame record at x29's slot.
 */
FUNCTION(arch_rethook_trampoline, .text.return)
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
	bl	arch_rethook_trampoline_callback
	mov	x30, x0
	ldr	x0, [sp, #OFF_pt_regs_pstate]
	and	x0, x0, #0xf0000000
	msr	nzcv, x0
	x0_to_x29 ldp
	add	sp, sp, #SIZEOF_pt_regs
	ret
END(arch_rethook_trampoline)
#endif
