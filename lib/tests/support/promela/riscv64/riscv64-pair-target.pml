/*
 * A site that calls the common trampoline is led to a direct call's target, with the machine stopped, in a preemptible kernel. No
 * kernel with such sites is one. The ops that was attached goes away without a word.
 */
#define BARRIERS "stop_machine", "fence.i"
#include "pair.inc"
#include "stopped.inc"

active proctype patcher()
{
	byte n;

	d_step {
		holds(SITE, CALLER); holds(SITE + 1, CALLER); holds(INNER, THE_LIST); holds(INNER + 1, THE_LIST);
		head = A;
		next[A] = NONE;
		leaving = BIT(A)
	};
	begins();
	update_begins();
	writes_pair(SITE, DIRECT);
	update_ends();
	ends()
}
