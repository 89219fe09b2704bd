#include "asm.h"

/* An observing program that then uses up every register it may, but for the one it returns a value in. */
FUNCTION(lab_bpf_observe_clobber, .text.callback)
#ifdef CONFIG_X86_KERNEL_IBT
	endbr64
#endif
	subq	$8, %rsp
	call	lab_bpf_observe
	addq	$8, %rsp
	movabsq	$0x6b6c6f6262657265, %rcx
	.irp	r, rdx, rsi, rdi, r8, r9, r10, r11
	movq	%rcx, %\r
	.endr
	ret
END(lab_bpf_observe_clobber)
