/* A fixed AUIPC, and a module's ops, which are called through the list: one comes, goes, and another comes. */
#include "fixed_auipc.inc"

active proctype patcher()
{
	byte n;

	d_step { holds(SITE, NOP) };
	begins();

	links(A);
	changes(LIST);
	store(SITE, CALL);
	update_ends();
	is_registered(A);

	unlinks(A);
	changes(LIST);
	store(SITE, NOP);
	sets_ops(NONE);
	ops_changed();
	changes(NOBODY);
	update_ends();
	tasks(A);

	links(B);
	changes(LIST);
	store(SITE, CALL);
	update_ends();
	is_registered(B);
	ends()
}
