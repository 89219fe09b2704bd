#include "asm.h"
#include "args.inc"

/*
 * @trampoline lab_direct_near
 * stands for: the trampoline of a direct call, as a module or BPF would supply it, riscv64, since v6.8
 * saves: ra a0 a1 a2 a3 a4 a5 a6 a7
 * frame: 80 bytes, 80 written
 * differs: saves all eight argument registers whatever the function takes, because it is one stub for all functions.
 *
 * Entered from the patch site: t0 leads back into the traced function, ra to its caller. The near one lies within a
 * JALR's 2 KiB of ftrace_caller, where no real module or BPF program can; the far twin does not.
 */
.macro direct_stub callback
	addi	sp, sp, -80
	args	sd, 0
	sd	t0, 64(sp)
	sd	ra, 72(sp)
	call	\callback
	args	ld, 0
	ld	t0, 64(sp)
	ld	ra, 72(sp)
	addi	sp, sp, 80
	jr	t0
.endm

FUNCTION(lab_direct_near, .text.trampoline)
	direct_stub lab_direct_callback
END(lab_direct_near)

FUNCTION(lab_direct_near_observe, .text.trampoline)
	direct_stub lab_observe_direct_clobber
END(lab_direct_near_observe)

/* Behind all other text, so that nothing moves for them, and out of a JALR's reach. */
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
8:	auipc	a0, %pcrel_hi(lab_direct_hits)
	ld	a1, %pcrel_lo(8b)(a0)
	addi	a1, a1, 1
	sd	a1, %pcrel_lo(8b)(a0)
	ret
END(lab_direct_callback_far)
