"""What the kernel calls functions that the lab has under names of its own."""

#: Functions of return hooks that the lab has a second time, for the registers that a kprobe is given.
_PROBED = {f"{name}_probed": name for name in ("rethook_hook", "arch_rethook_prepare")}
#: Of links of kprobe_multi: the lab has them for each way to make a pt_regs, of which a release has one.
_LINKS = {
    f"{name}_{state}": name
    for name in ("kprobe_multi_link_handler", "kprobe_multi_link_exit_handler")
    for state in ("plain", "kernel", "hardware")
}
#: ISA -> the lab's function -> the kernel's.
NAMES = {
    "x86_64": {
        **_PROBED,
        **_LINKS,
        "lab_trap_entry": "asm_exc_int3",
        "lab_trap": "exc_int3",
        "text_poke_trap": "poke_int3_handler",
        "kprobe_trap": "kprobe_int3_handler",
    },
    "arm64": {
        **_LINKS,
        "lab_trap_entry": "el1h_64_sync",
        "lab_trap": "el1h_64_sync_handler",
        "kprobe_trap": "kprobe_brk_handler",
        "kprobe_step_trap": "kprobe_ss_brk_handler",
        "kretprobe_trap": "kretprobe_brk_handler",
    },
    "riscv64": {
        **_PROBED,
        **_LINKS,
        "lab_trap_entry": "handle_exception",
        "lab_trap": "do_trap_break",
        "kprobe_trap": "kprobe_breakpoint_handler",
        "kprobe_step_trap": "kprobe_single_step_handler",
        "kprobe_simulate_auipc": "simulate_auipc",
    },
}
