/* Ops A has its trampoline, B comes, so that both share the common one, and A goes, so that B has its own. */
#include "int3.inc"

active proctype patcher()
{
	byte n;

	d_step {
		holds(SITE, CALL(OWN(A))); is_whole(SITE); holds(INNER, CALL(OWN(A))); is_whole(INNER);
		ATTACHED
	};
	begins();

	links(B);
	leads(CALL(THE_LIST));
	pokes_text(SITE, CALL(ELSEWHERE));
	is_registered(B);

	unlinks(A);
	leads(CALL(THE_LIST));
	pokes_text(SITE, CALL(OWN(B)));
	sets_ops(B);
	asks_all(IPI_OPS);
	leads(CALL(OWN(B)));
	tasks_leave(TASKS);
	all_look_again(TASKS);
	gives_back(A);
	ends()
}
