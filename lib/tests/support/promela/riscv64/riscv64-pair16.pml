/* A site of 16 bytes in a kernel that is not preemptible, which in v6.1 has one wait in the end: everyone has left by then. */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks_rude"
#define RUDE 2
#define NOT_PREEMPTIBLE
inline tasks() { tasks_leave(RUDE) }
#include "detour16.inc"
