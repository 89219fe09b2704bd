#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

/* Comes back to who called the function, when the callback has said who: a pt_regs with all general registers; sp is among them late. */
.macro hooked_return callback
	addi	sp, sp, -SIZEOF_pt_regs
	sd	ra, OFF_pt_regs_ra(sp)
	pt_regs_rest sd, t0
#ifdef CONFIG_RETHOOK_SP
	addi	a0, sp, SIZEOF_pt_regs
	sd	a0, OFF_pt_regs_sp(sp)
#endif
	mv	a0, sp
	call	\callback
	mv	ra, a0
	pt_regs_rest ld, t0
	addi	sp, sp, SIZEOF_pt_regs
	ret
.endm

/* No kernel's: a pt_regs of which what a return value may be in is filled, or what an ftrace_regs has too. */
.macro hooked_return_partial callback
	addi	sp, sp, -SIZEOF_pt_regs
	sd	ra, OFF_pt_regs_ra(sp)
	sd	s0, OFF_pt_regs_s0(sp)
#ifdef CONFIG_RETURN_SAVE_ARGS
	sd	t1, OFF_pt_regs_t1(sp)
	args	sd, OFF_pt_regs_a0
	addi	a0, sp, SIZEOF_pt_regs
	sd	a0, OFF_pt_regs_sp(sp)
#else
	sd	a0, OFF_pt_regs_a0(sp)
	sd	a1, OFF_pt_regs_a1(sp)
#endif
	addi	s0, sp, SIZEOF_pt_regs
	mv	a0, sp
	call	\callback
	mv	ra, a0
#ifdef CONFIG_RETURN_SAVE_ARGS
	args	ld, OFF_pt_regs_a0
	ld	t1, OFF_pt_regs_t1(sp)
#else
	ld	a1, OFF_pt_regs_a1(sp)
	ld	a0, OFF_pt_regs_a0(sp)
#endif
	ld	s0, OFF_pt_regs_s0(sp)
	addi	sp, sp, SIZEOF_pt_regs
	ret
.endm

#if defined(CONFIG_RETURN_SAVE_ARGS) || defined(CONFIG_RETURN_SAVE_VALUE)
#define HOOKED_RETURN hooked_return_partial
#else
#define HOOKED_RETURN hooked_return
#endif

#ifdef CONFIG_RETHOOK
/* Where a function with a hooked return comes back to. Stands for arch_rethook_trampoline, riscv64, v6.2 to v7.2. */
FUNCTION(arch_rethook_trampoline, .text.return)
	HOOKED_RETURN arch_rethook_trampoline_callback
END(arch_rethook_trampoline)
#endif

#if defined(CONFIG_KRETPROBES) && !defined(CONFIG_KRETPROBE_ON_RETHOOK)
/* The same of a kretprobe that is on no return hook. Stands for __kretprobe_trampoline, riscv64, v5.17 to v6.2. */
FUNCTION(__kretprobe_trampoline, .text.return)
	HOOKED_RETURN trampoline_probe_handler
END(__kretprobe_trampoline)
#endif
