/*
 * x86-64: a CPU that meets the breakpoint of a site that is being changed does what the site will do.
 *
 * Stands for smp_text_poke_int3_handler() (poke_int3_handler() up to v6.15): while lab_pokes_nr is not zero, the first so many
 * of lab_pokes, sorted by address, are being changed; the one whose breakpoint was hit is found by bisection, and its new call,
 * jump or NOP is done on the saved registers. Differs: one reference count for all CPUs, because they run one at
 * a time; no more than LAB_NR_POKES at once, because no patching needs more.
 */
#include "lab.h"
#include "trap.h"

#ifdef __x86_64__
#define CALL_SIZE 5
#define CALL_OPCODE 0xe8
#define JMP_OPCODE 0xe9

struct lab_poke lab_pokes[LAB_NR_POKES];
unsigned long lab_pokes_nr;

_Bool text_poke_trap(struct pt_regs *regs)
{
	unsigned long low = 0, high = READ_ONCE(lab_pokes_nr), ip = trap_ip(regs);

	while (low < high) {
		unsigned long middle = (low + high) / 2;
		struct lab_poke *p = &lab_pokes[middle];

		if (p->ip < ip) {
			low = middle + 1;
		} else if (p->ip > ip) {
			high = middle;
		} else {
			unsigned long behind = ip + CALL_SIZE;

			if (p->opcode == CALL_OPCODE) {	/* into the gap that the entry left */
				regs->sp -= sizeof(long);
				*(unsigned long *)regs->sp = behind;
			}
			regs->ip = p->opcode == CALL_OPCODE || p->opcode == JMP_OPCODE ? behind + p->disp : behind;
			return 1;
		}
	}
	return 0;
}
#endif
