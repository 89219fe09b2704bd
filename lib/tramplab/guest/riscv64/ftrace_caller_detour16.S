#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

#ifdef CONFIG_RISCV_DETOUR_16
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, riscv64, v5.12 to v6.2
 * saves: ra a0 a1 a2 a3 a4 a5 a6 a7
 * frame: 80 bytes, 72 written
 * differs: nothing that runs.
 *
 * @trampoline ftrace_regs_caller
 * stands for: ftrace_regs_caller, riscv64, v5.12 to v6.2
 * saves: ra gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6
 * frame: 296 bytes, 264 written
 * differs: the sp slot holds sp at the function's entry, and the kernels' its own (regs_sp_of_trampoline in
 *   data/releases.yml).
 *
 * The 16-byte site has stored the caller's ra in the word below sp and calls through ra, so ra leads to the site's last
 * instruction, which reloads it. ftrace_caller passes no registers: what its last argument points at is no pt_regs.
 */
#define SITE 12				/* bytes of the site before its last instruction */
#define ABI_FRAME 72
#define ABI_RA 64
#define PT SIZEOF_pt_regs

TRAMPOLINE(ftrace_caller)
	addi	sp, sp, -8			/* the word the site wrote belongs to the frame now */
	addi	sp, sp, -ABI_FRAME
	args	sd, 0
	sd	ra, ABI_RA(sp)
	addi	a0, ra, -SITE			/* ip */
	load_shared_ops
	ld	a1, ABI_FRAME(sp)		/* parent ip */
	mv	a3, sp
LABEL(ftrace_call)
	call	ftrace_stub
#ifdef CONFIG_FTRACE_GRAPH_SLOT
	graph_slot ABI_FRAME, ABI_RA, SITE
#endif
	args	ld, 0
	ld	ra, ABI_RA(sp)
	addi	sp, sp, ABI_FRAME
	addi	sp, sp, 8
	ret
END(ftrace_caller)

TRAMPOLINE(ftrace_regs_caller)
	addi	sp, sp, -8
	addi	sp, sp, -PT
	sd	ra, OFF_pt_regs_epc(sp)
	sd	t0, OFF_pt_regs_t0(sp)
	addi	t0, sp, (PT + 8)
	sd	t0, OFF_pt_regs_sp(sp)
	ld	t0, PT(sp)
	sd	t0, OFF_pt_regs_ra(sp)
	pt_regs_rest sd
	addi	a0, ra, -SITE
	load_shared_ops
	ld	a1, PT(sp)
	mv	a3, sp
LABEL(ftrace_regs_call)
	call	ftrace_stub
#ifdef CONFIG_FTRACE_GRAPH_SLOT
	graph_slot OFF_pt_regs_ra, OFF_pt_regs_epc, SITE
#endif
	ld	t0, OFF_pt_regs_ra(sp)
	sd	t0, PT(sp)
	ld	ra, OFF_pt_regs_epc(sp)
	ld	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest ld
	addi	sp, sp, PT
	addi	sp, sp, 8
	ret
END(ftrace_regs_caller)
#endif
