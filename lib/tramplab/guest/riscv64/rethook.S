#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

#ifdef CONFIG_RETHOOK
/*
 * Where a function with a hooked return comes back to. Stands for arch_rethook_trampoline, riscv64, v6.3 to v6.9: a pt_regs, of
 * which all general registers but sp are filled.
 */
FUNCTION(arch_rethook_trampoline, .text.return)
	addi	sp, sp, -SIZEOF_pt_regs
	sd	ra, OFF_pt_regs_ra(sp)
	sd	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest sd
	mv	a0, sp
	call	arch_rethook_trampoline_callback
	mv	ra, a0
	ld	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest ld
	addi	sp, sp, SIZEOF_pt_regs
	ret
END(arch_rethook_trampoline)
#endif
