"""The same as in mutants.py of kernels with one ops for all direct calls, see tramplab/trampolines/single."""

from support.mutants.mutants import of

MUTANTS = [
    *of(
        "arm64",
        "v7.2",
        "direct-each",
        "arm64/direct_ways.inc",
        ("a register of an argument used", "\tmov\tx15, #0x83eb\t", "\tmov\tx5, #0x83eb\n\tmov\tx15, #0x83eb\t"),
        single="lookup",
    ),
    *of(
        "arm64",
        "v7.2",
        "direct-each",
        "arm64/direct_ways.inc",
        ("x4 and x5 not saved", "\tstp\tx4, x5, [sp, #48]\n", ""),
        ("x8 not restored", "\tldp\tx8, x11, [sp, #80]\n", ""),
        ("the way back lost", "\tldr\tx30, [sp, #8]\n", ""),
        ("the caller lost", "\tldp\tx29, x9, [sp, #(LOOKUP_FRAME - 16)]\n", ""),
        ("frame 16 bytes short", "\tadd\tsp, sp, #LOOKUP_FRAME\n", "\tadd\tsp, sp, #(LOOKUP_FRAME - 16)\n"),
        single="lookup-c",
    ),
    *of(
        "arm64",
        "v7.2",
        "direct-far",
        "arm64/direct_ways.inc",
        ("mark not taken off", "\tsub\tx17, x11, #1\n", "\tmov\tx17, x11\n"),
        ("mark not asked for", "\ttbnz\tx11, #0, ftrace_caller_direct_odd\n", ""),
        single="literal",
    ),
    *of(
        "arm64",
        "v7.2",
        "direct-far",
        "arm64/direct_ways.inc",
        ("the ops for the target", "\tldr\tx17, [x11, #-24]\n", "\tldr\tx17, [x11, #-16]\n"),
        single="beside",
    ),
    *of(
        "riscv64",
        "v7.2",
        "direct-each",
        "riscv64/direct_ways.inc",
        ("the caller lost", "\tld\tra, 72(sp)\n", ""),
        ("arguments not restored", "\tmv\tt1, a0\n\targs\tld, 0\n", "\tmv\tt1, a0\n"),
        single="lookup-c",
    ),
    *of(
        "riscv64",
        "v7.2",
        "direct-far",
        "riscv64/direct_ways.inc",
        ("mark not asked for", "\tandi\tt1, t2, 1\n", "\tmv\tt1, zero\n"),
        single="literal",
    ),
    *of(
        "riscv64",
        "v7.2",
        "direct-far",
        "riscv64/direct_ways.inc",
        ("the ops for the target", "\tld\tt1, -24(t0)\n", "\tld\tt1, -16(t0)\n"),
        single="beside",
    ),
    *of(
        "x86_64",
        "v7.2",
        "direct+ops",
        "core/direct.c",
        ("table not read", "lab_hash_find(READ_ONCE(direct_functions), ip)", "lab_hash_find(&lab_empty_hash, ip)"),
        single="one-ops",
    ),
]

#: The same of the lookup in ftrace_caller. What it does not find goes on to the C code, which does, so calls only get longer; and a
#: wrong entry is another stub, which keeps the calling convention too.
LOOKUP_MUTANTS = [
    *of(
        "arm64",
        "v7.2",
        "direct-each",
        "arm64/direct_ways.inc",
        ("no hash", "\tmul\tx15, x10, x15\n", ""),
        ("buckets as for an entry fewer", "\tlsr\tx15, x15, #1\t", "\tnop\t"),
        ("shift by size_bits", "\tmvn\tx13, x13\t", "\tnop\t"),
        ("another ip looked up", "\tsub\tx10, x30, #4\t", "\tsub\tx10, x30, #8\t"),
        ("first of the bucket taken", "\tb.eq\t2f\n", "\tb\t2f\n"),
        ("rest of the bucket forgotten", "\tldr\tx12, [x12, #OFF_ftrace_func_entry_next]\n", "\tmov\tx12, #0\n"),
        single="lookup",
    ),
    *of(
        "riscv64",
        "v7.2",
        "direct-each",
        "riscv64/direct_ways.inc",
        ("no hash", "\tmul\tt6, t1, t6\n", ""),
        ("shift by size_bits", "\tnot\tt4, t4\t", "\tmv\tt4, t4\t"),
        ("pointers of a byte", "\tslli\tt6, t6, 3\n", ""),
        ("another ip looked up", "\taddi\tt1, t0, -4\t", "\taddi\tt1, t0, -8\t"),
        ("first of the bucket taken", "\tbeq\tt4, t1, 2f\n", "\tj\t2f\n"),
        ("rest of the bucket forgotten", "\tld\tt3, OFF_ftrace_func_entry_next(t3)\n", "\tmv\tt3, zero\n"),
        single="lookup",
    ),
]
