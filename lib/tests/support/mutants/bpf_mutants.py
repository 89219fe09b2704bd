"""Mutants of what goes around BPF programs, for test_bpf_states.py: hook is the check that notices."""

from support.mutants.mutants import of

CORE, SECTIONS, BODIES = "core/bpf.c", "include/sections.h", "core/sections.c"
_RELEASED = "== 0)\n\t\tlab_image_release(im);"
MUTANTS = [
    *of(
        "x86_64",
        "v7.2",
        "image_that_is_freed",
        CORE,
        ("a call not counted", "__atomic_add_fetch(&im->users, 1,", "__atomic_add_fetch(&im->users, 0,"),
        ("the last use not reported", "\tim->released = 1;\n", ""),
        ("every use taken for the last", _RELEASED, ">= 0)\n\t\tlab_image_release(im);"),
        ("left where it was before", "\t\tthis_cpu_add(ref, -1);\n\telse if (", "\t\tthis_cpu_add(ref, -1);\n\telse if (0 && "),
    ),
    *of(
        "x86_64",
        "v7.2",
        "task_that_may_not_migrate",
        SECTIONS,
        ("one level for all", "\t\tt->migration_disabled += 1;\n", ""),
        ("may migrate too early", "\tif (t->migration_disabled > 1) {", "\tif (0) {"),
        ("the CPU not counted", "\tthis_pcpu->nr_pinned += 1;\n", ""),
    ),
    *of(
        "x86_64",
        "v6.12",
        "task_whose_cpus_have_changed",
        SECTIONS,
        ("left where it may not run", "\tif (unlikely(t->cpus_ptr != &t->cpus_mask))\n\t\tlab_set_cpus_allowed(t, wanted);\n", ""),
    ),
    *of(
        "x86_64",
        "v6.12",
        "task_whose_cpus_have_changed",
        BODIES,
        ("the end of the reader not reported", "\tt->rcu_read_unlock_special = 0;\n", ""),
    ),
    *of(
        "riscv64",
        "v6.12",
        "task_that_may_not_migrate",
        CORE,
        ("may migrate", "\trcu_read_lock();\n\tmigrate_disable();\n", "\trcu_read_lock();\n"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "reader_while_it_runs",
        BODIES,
        ("no reader", "\tcurrent->rcu_read_lock_nesting += 1;\n", "\tcurrent->rcu_read_lock_nesting += 0;\n"),
    ),
    *of(
        "arm64",
        "v7.2",
        "program_in_each_context",
        CORE,
        ("one context for all", "lab_context_level();\n\tunsigned int all;", "0;\n\tunsigned int all;"),
        ("no miss counted", "\t\tprog->misses += 1;\n", ""),
        ("left in another context", "[level] -= 1;", "[level & 0] -= 1;"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "programs_of_a_kprobe",
        "core/bpf_kprobe.c",
        ("run inside another", "if (likely(++this_pcpu->bpf_prog_active == 1)) {", "if (++this_pcpu->bpf_prog_active) {"),
        ("no miss counted", "\t\tcall->prog_array->prog->misses += 1;\n", "\t\t;\n"),
        ("run though not profiled", "return flags & TP_FLAG_PROFILE ?", "return flags | TP_FLAG_PROFILE ?"),
        ("hits not counted", "\t*lab_pcpu_ptr(unsigned long, tk->nhit) += 1;\n", ""),
        ("traced events passed over", "\t\tkprobe_trace_func(tk, regs);\n\treturn flags", "\t\t;\n\treturn flags"),
        ("recorded events passed over", "return READ_ONCE(call->perf_events) ?", "return 0 ?"),
    ),
    *of(
        "arm64",
        "v7.2",
        "programs_of_a_kprobe",
        "core/bpf_kprobe.c",
        ("where to go on not asked", "if (trap_ip(regs) != before)", "if (0 && before)"),
    ),
]
