/* riscv64, v6.12: AUIPC and JALR or two NOPs, with the machine stopped, in a kernel that is not preemptible. */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks_rude", "synchronize_rcu"
#define RUDE 2
#define RCU 3
#define NOT_PREEMPTIBLE
#include "pair.inc"
#include "stopped.inc"

/* Each has every CPU switch tasks, and whoever is inside does so behind the function only. */
inline tasks() { tasks_leave(RUDE); tasks_leave(RCU) }
inline changes(place, value) { writes_pair(place, value) }

active proctype patcher()
{
	byte n;

	untraced();
	begins();
	comes_goes_comes();
	ends()
}
