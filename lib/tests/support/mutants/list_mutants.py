"""Mutants of the list of ops and of the guard around one, for test_list_states.py: hook is the check that notices."""

from support.mutants.mutants import of

FILE = "core/ftrace.c"
MUTANTS = [
    *of(
        "x86_64",
        "v7.2",
        "stub_on_the_list",
        FILE,
        ("stubs called", "\t\tif (op->flags & FTRACE_OPS_FL_STUB)\n\t\t\tcontinue;\n", ""),
    ),
    *of(
        "arm64",
        "v7.2",
        "ops_without_a_function",
        FILE,
        ("tracing goes on", "\tftrace_disabled = 1;\n", ""),
        ("the ops of a call kept", "\tfunction_trace_op = &ftrace_list_end;\n}", "}"),
        ("those after it called", "\t\t\tftrace_kill();\n\t\t\tbreak;\n", "\t\t\tftrace_kill();\n\t\t\tcontinue;\n"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "filter_that_is_empty",
        FILE,
        ("an empty filter taken for one", "if (!lab_hash_empty(hash->filter_hash) && !lab_hash", "if (!lab_hash"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "filter_that_is_empty",
        "core/hash.h",
        ("modules not meant", "!(h->count || h->flags & FTRACE_HASH_FL_MOD)", "!h->count"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "registers_that_were_not_saved",
        FILE,
        ("called without registers", "\tif (!regs && (op->flags & FTRACE_OPS_FL_SAVE_REGS))\n\t\treturn 0;\n", ""),
    ),
    *of(
        "arm64",
        "v6.1",
        "guard_is_held",
        FILE,
        ("the list without a guard", "\tif (!others)\n\t\treturn;\n\top = READ", "\top = READ"),
        ("an ops without its guard", "\tif (!others)\n\t\treturn;\n\tif (!(op", "\tif (!(op"),
    ),
    *of(
        "arm64",
        "v7.2",
        "only_the_transition_is_left",
        "core/recursion.h",
        ("one bit of transitions for all users", "bit = 1 << (TRACE_CTX_TRANSITION + start);", "bit = 1 << TRACE_CTX_TRANSITION;"),
        ("a transition is not given back", "return ~bit;", "return ~(1 << (TRACE_CTX_NORMAL - lab_context_level() + start));"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "rcu_does_not_watch",
        FILE,
        ("RCU not asked by the list", "\t\tif ((op->flags & FTRACE_OPS_FL_RCU) && !rcu_is_watching())\n\t\t\tcontinue;\n", ""),
    ),
    *of(
        "x86_64",
        "v7.2",
        "rcu_does_not_watch",
        FILE,
        ("RCU not asked for one", "if (!(op->flags & FTRACE_OPS_FL_RCU) || rcu_is_watching())", "if (1)"),
    ),
    *of(
        "x86_64",
        "v6.4",
        "guard_asks_whether_rcu_watches",
        "core/recursion.h",
        ("RCU not asked by the guard", "#ifdef CONFIG_RECURSION_RCU_TEST", "#if 0"),
        ("no warning", "\t\tLAB_WARN();\n\t\treturn 0;\n\t}\n#endif", "\t\treturn 0;\n\t}\n#endif"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "guard_asks_whether_rcu_watches",
        "core/recursion.h",
        ("RCU asked in every release", "#ifdef CONFIG_RECURSION_RCU_TEST", "#if 1"),
    ),
]
