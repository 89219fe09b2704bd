#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

#if defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS) && !defined(CONFIG_RISCV_DETOUR_16)
#define PT SIZEOF_pt_regs
#define SITE 8

#ifdef CONFIG_RISCV_PT_REGS_FRAME
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, riscv64, v6.8 and v6.9
 * saves: ra s0 a0 a1 a2 a3 a4 a5 a6 a7
 * frame: 288 bytes, 88 written
 * differs: nothing that runs.
 *
 * A pt_regs of which a few slots are filled, so that the function graph tracer can be an ordinary callback.
 */
TRAMPOLINE(ftrace_caller)
	addi	sp, sp, -PT
	sd	t0, OFF_pt_regs_epc(sp)
	sd	ra, OFF_pt_regs_ra(sp)
	sd	s0, OFF_pt_regs_s0(sp)
	args	sd, OFF_pt_regs_a0
	addi	a0, t0, -SITE
	load_shared_ops
	mv	a1, ra
	mv	a3, sp
LABEL(ftrace_call)
	call	ftrace_stub
	ld	t0, OFF_pt_regs_epc(sp)
	ld	ra, OFF_pt_regs_ra(sp)
	ld	s0, OFF_pt_regs_s0(sp)
	args	ld, OFF_pt_regs_a0
	addi	sp, sp, PT
	jr	t0
END(ftrace_caller)
#else
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, riscv64, v6.3 to v6.7
 * saves: ra a0 a1 a2 a3 a4 a5 a6 a7
 * frame: 80 bytes, 80 written
 * differs: nothing that runs.
 *
 * Passes no registers: what its last argument points at is no pt_regs.
 */
#define ABI_FRAME 80
#define ABI_T0 64
#define ABI_RA 72

TRAMPOLINE(ftrace_caller)
	addi	sp, sp, -ABI_FRAME
	args	sd, 0
	sd	t0, ABI_T0(sp)
	sd	ra, ABI_RA(sp)
	addi	a0, t0, -SITE
	load_shared_ops
	mv	a1, ra
	mv	a3, sp
LABEL(ftrace_call)
	call	ftrace_stub
#ifdef CONFIG_FTRACE_GRAPH_SLOT
	graph_slot ABI_RA, ABI_T0, SITE
#endif
	args	ld, 0
	ld	t0, ABI_T0(sp)
	ld	ra, ABI_RA(sp)
	addi	sp, sp, ABI_FRAME
	jr	t0
END(ftrace_caller)
#endif

/*
 * @trampoline ftrace_regs_caller
 * stands for: ftrace_regs_caller, riscv64, v6.3 to v6.9
 * saves: ra gp tp t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6
 * saves with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS: ra gp tp t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6
 * frame: 288 bytes, 256 written
 * differs: the sp slot holds sp at the function's entry, and the kernels' their own (regs_sp_of_trampoline in data/releases.yml).
 *
 * epc and t0 both get t0, the way back into the traced function. From v6.8, t1 is cleared first; not zero on the way
 * back, it is the direct call to leave through.
 */
TRAMPOLINE(ftrace_regs_caller)
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
	mv	t1, zero
#endif
	addi	sp, sp, -PT
	sd	t0, OFF_pt_regs_epc(sp)
	sd	ra, OFF_pt_regs_ra(sp)
	sd	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest sd
	addi	t3, sp, PT
	sd	t3, OFF_pt_regs_sp(sp)
	addi	a0, t0, -SITE
	load_shared_ops
	mv	a1, ra
	mv	a3, sp
LABEL(ftrace_regs_call)
	call	ftrace_stub
#ifdef CONFIG_FTRACE_GRAPH_SLOT
	graph_slot OFF_pt_regs_ra, OFF_pt_regs_epc, SITE
#endif
	ld	t0, OFF_pt_regs_epc(sp)
	ld	ra, OFF_pt_regs_ra(sp)
	pt_regs_rest ld
	addi	sp, sp, PT
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
	bnez	t1, 1f
#endif
	jr	t0
1:	jr	t1
END(ftrace_regs_caller)
#endif
