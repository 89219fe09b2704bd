"""Mutants of what runs BPF programs on kprobes, kretprobes and links, for test_programs.py: hook is the check that notices."""

from support.mutants.mutants import of

LINK, RUN, EVENT = "core/bpf_multi.c", "include/multi.h", "core/bpf_kprobe.c"
MUTANTS = [
    *of(
        "arm64",
        "v7.2",
        "links",
        LINK,
        ("another beginning", "return (unsigned long)before;", "return (unsigned long)before + 4;"),
        ("no registers made", "LINK(kernel, lab_mark_kernel(ctx))", "LINK(kernel, ctx = lab_link_regs() + 1)"),
    ),
    *of(
        "arm64",
        "v7.2",
        "links",
        RUN,
        ("the context kept", "		current->bpf_ctx = old; \\\n", "		(void)old; \\\n"),
        ("the CPU's guard kept", "	this_pcpu->bpf_prog_active -= 1; \\\n", "	barrier(); \\\n"),
        ("the return not told", "start(ip), regs, 1, data)", "start(ip), regs, 0, data)"),
        ("RCU's read side kept", "		rcu_read_unlock(); \\\n", "		barrier(); \\\n"),
    ),
    *of(
        "arm64",
        "v7.2",
        "changed",
        "include/ways.h",
        ("no value back", "ftrace_regs_set_return_value(fregs, LAB_RETURNED(regs));", ""),
    ),
    *of(
        "x86_64",
        "v6.12",
        "links",
        LINK,
        ("ENDBR not seen", "lab_endbr(instruction) ? ip - 4 : ip", "lab_endbr(instruction) ? ip : ip"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "links",
        RUN,
        ("migration off for good", "#define LINK_MIGRATE_ENABLE() migrate_enable()", "#define LINK_MIGRATE_ENABLE()"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "session",
        RUN,
        ("sessions that cannot decline", "is_kprobe_session(link->link.prog) ? err : 0", "0 * err"),
        ("a link of another program's kind", "prog->type != BPF_PROG_TYPE_KPROBE", "prog->type == BPF_PROG_TYPE_KPROBE"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "session",
        RUN,
        ("links that can decline", "return prog->expected_attach_type == BPF_TRACE_KPROBE_SESSION", "return 1"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "links",
        LINK,
        ("as if the pair began at rec->ip", "return ip - 4;", "return ip;"),
    ),
    *of("riscv64", "v7.2", "links", RUN, ("another link", ".link = link, .entry_ip", ".link = 0, .entry_ip")),
    *of("riscv64", "v7.2", "links", "riscv64/memcpy.S", ("every second word", "	addi	a1, a1, 4\n", "	addi	a1, a1, 8\n")),
    *of(
        "x86_64",
        "v7.2",
        "kretprobe",
        EVENT,
        ("hits not counted", "	lab_count_hit(tk);\n	flags", "	flags"),
        ("events that perf has not opened", "	if (flags & TP_FLAG_PROFILE)\n		kretprobe", "	if (!flags)\n		kretprobe"),
        ("no program", "!trace_call_bpf(call, regs))\n		return;", "call)\n		return;"),
    ),
]
