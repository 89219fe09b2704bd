"""How a kernel for x86-64 returns and branches to what a register holds."""

from __future__ import annotations

#: Through the thunks that it is linked with; as where no mitigation is wanted; or through retpolines and SRSO's safe return, as on
#: a CPU that has neither IBRS of its own nor a fix for SRSO (arch/x86/kernel/cpu/bugs.c, spectre_v2_select_mitigation() and
#: srso_apply_mitigation()).
LINKED, NONE, SRSO = MITIGATIONS = ("linked", "none", "srso")
#: To what a return jumps, where it does.
RETURN_THUNKS = {LINKED: "__x86_return_thunk", SRSO: "srso_return_thunk"}
