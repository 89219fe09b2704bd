/* Ops A has its trampoline, B comes, so that both share the common one, and A goes, so that B has its own. */
#include "int3.inc"

#define ACTS 2

inline before()
{
	holds(SITE, CALL(OWN(A))); is_whole(SITE); holds(INNER, CALL(OWN(A))); is_whole(INNER);
	ATTACHED
}

inline act_begins()
{
	if
	:: act == 0 ->
		links(B);
		d_step { for_site = CALL(ELSEWHERE); for_inner = CALL(THE_LIST) }
	:: else ->
		unlinks(A);
		d_step { for_site = CALL(OWN(B)); for_inner = CALL(OWN(B)); for_ops = B }
	fi
}

inline act_ends()
{
	if
	:: act == 0 -> is_registered(B)
	:: else -> tasks_switch(RUDE); tasks_leave(TASKS); gives_back(A)
	fi
}

#include "int3_plan.inc"
