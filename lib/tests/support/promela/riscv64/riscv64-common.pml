/* A fixed AUIPC, and two ops of which one goes: the site calls the trampoline all the time. */
#include "fixed_auipc.inc"

active proctype patcher()
{
	byte n;

	d_step { holds(SITE, CALL); ATTACHED; dest = A };
	begins();
	b_comes_a_goes();
	ends()
}
