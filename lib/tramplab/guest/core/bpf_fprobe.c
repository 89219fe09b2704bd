/*
 * BPF programs on an fprobe, in place of a trampoline made for the function: as proposed for arm64 in November 2022
 * (20221108220651.24492-1-revest@chromium.org) and in no kernel. The arguments are copied from the registers that the handler is
 * given to the array that programs take, which is in the return hook's node, if there is one, else on the stack; and each program
 * has a run context with its link's cookie. What goes around a program is what a BPF trampoline calls.
 */
#include "bpf.h"
#include "fprobe.h"

#ifdef CONFIG_FPROBE_ON_RETHOOK
static inline void lab_run(struct lab_bpf_link *link, unsigned long *words)
{
	struct bpf_tramp_run_ctx run_ctx;
	unsigned long start;

	run_ctx.bpf_cookie = link->cookie;
	start = __bpf_prog_enter_recur(link->prog, &run_ctx);
	if (start)
		bpf_prog_run(link->prog, words + 1);
	__bpf_prog_exit_recur(link->prog, start, &run_ctx);
}

int bpf_fprobe_entry(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *regs, void *entry_data)
{
	struct bpf_fprobe *bpf = fp->bpf;
	struct lab_bpf_words here;
	unsigned long *words = entry_data ? entry_data : here.words;

	words[0] = bpf->nr_args;
	for (unsigned long i = 0; i < bpf->nr_args; i++)
		words[1 + i] = ftrace_regs_get_argument((struct ftrace_regs *)regs, i);
	for (unsigned long i = 0; i < bpf->nr_fentry; i++)
		lab_run(&bpf->links[i], words);
	return bpf->declines;
}

void bpf_fprobe_exit(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, struct pt_regs *regs, void *entry_data)
{
	struct bpf_fprobe *bpf = fp->bpf;
	unsigned long *words = entry_data;

	words[1 + bpf->nr_args] = pt_regs_return_value(regs);
	for (unsigned long i = 0; i < bpf->nr_fexit; i++)
		lab_run(&bpf->links[bpf->nr_fentry + i], words);
}
#endif
