/*
 * Leaving functions without a return, as by setjmp() and longjmp(), which the kernel's own C does nowhere but where an exception has
 * gone wrong. What every function keeps, the stack pointer and where to go on are put into a buffer, and taken from it.
 */
#ifndef LAB_JUMP_H
#define LAB_JUMP_H

#define LAB_JUMP_WORDS 16

/* Here goes on who jumps to the buffer. 0, and behind a jump what that one gives, which is not 0. */
long lab_remember(unsigned long *buffer) __attribute__((returns_twice));
void lab_jump(unsigned long *buffer, long value) __attribute__((noreturn));

#endif
