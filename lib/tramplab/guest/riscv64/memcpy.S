#include "asm.h"

/*
 * Stands for memcpy() as it is for less than 128 bytes (arch/riscv/lib/memcpy.S, v6.14 to v7.2): words of four bytes where both places
 * and the size are multiples of that, else bytes. More is not copied here: there the kernel's takes 16 words a round.
 */
FUNCTION(memcpy, .links)
	mv	t6, a0
	sltiu	a3, a2, 128
	beqz	a3, 4f
	beqz	a2, 3f
	add	a3, a1, a2
	or	a5, a1, t6
	or	a5, a5, a3
	andi	a5, a5, 3
	bnez	a5, 2f
1:	lw	a4, (a1)
	addi	a1, a1, 4
	sw	a4, (t6)
	addi	t6, t6, 4
	bltu	a1, a3, 1b
3:	ret
2:	lb	a4, (a1)
	addi	a1, a1, 1
	sb	a4, (t6)
	addi	t6, t6, 1
	bltu	a1, a3, 2b
	ret
4:	unimp
END(memcpy)
