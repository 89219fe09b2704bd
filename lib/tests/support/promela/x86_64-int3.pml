/* One ops with a trampoline of its own comes, goes, and another comes. The common trampoline is written, and never called. */
#include "int3.inc"

active proctype patcher()
{
	byte n;

	d_step { holds(SITE, NOP); is_whole(SITE); holds(INNER, CALL(ELSEWHERE)); is_whole(INNER) };
	begins();

	links(A);
	leads(CALL(THE_LIST));
	pokes_text(SITE, CALL(OWN(A)));
	sets_ops(A);
	asks_all(IPI_OPS);
	leads(CALL(OWN(A)));
	is_registered(A);

	unlinks(A);
	leads(CALL(THE_LIST));
	pokes_text(SITE, NOP);
	sets_ops(NONE);
	asks_all(IPI_OPS);
	leads(CALL(ELSEWHERE));
	tasks_leave(TASKS);
	all_look_again(TASKS);
	gives_back(A);

	links(C);
	leads(CALL(THE_LIST));
	pokes_text(SITE, CALL(OWN(C)));
	sets_ops(C);
	asks_all(IPI_OPS);
	leads(CALL(OWN(C)));
	is_registered(C);
	ends()
}
