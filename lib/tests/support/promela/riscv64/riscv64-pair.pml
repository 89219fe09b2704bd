/* riscv64, v6.12: AUIPC and JALR or two NOPs, with the machine stopped, in a kernel that is not preemptible. */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks"
#define TASKS 2
#define NOT_PREEMPTIBLE
#include "pair.inc"
#include "stopped.inc"

inline changes(place, value) { writes_pair(place, value) }

active proctype patcher()
{
	byte n;

	untraced();
	begins();
	comes_goes_comes();
	ends()
}
