/*
 * With the machine stopped, a thread that is to go on between AUIPC and JALR is put back before both: proposed in
 * <ZfBbxPDd0rz6FN2T@FVFF77S0Q05N>, and never written.
 */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks", "fix-up"
#define TASKS 2
#define FIX_UP 3
#include "pair.inc"
#include "stopped.inc"

inline changes(place, value)
{
	writes_pair(place, value);
	if
	:: kept(FIX_UP) ->
		d_step {
			!over;
			n = 0;
			do
			:: n < THREADS -> where[n] = (where[n] == BETWEEN(place) -> BACK : where[n]); n++
			:: else -> break
			od;
			n = 0
		}
	:: else
	fi
}

active proctype patcher()
{
	byte n;

	untraced();
	begins();
	comes_goes_comes();
	ends()
}
