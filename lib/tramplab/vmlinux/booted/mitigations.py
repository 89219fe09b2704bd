"""How a kernel for x86-64 returns and branches to what a register holds."""

from __future__ import annotations

#: Through the thunks that it is linked with; as where no mitigation is wanted; through retpolines, as on a CPU without enhanced
#: IBRS; through SRSO's safe return, as on Zen 4, whose automatic IBRS spares the retpolines; or through both, as on Zen 3, which
#: has neither IBRS of its own nor a fix for SRSO (arch/x86/kernel/cpu/bugs.c, spectre_v2_select_mitigation() and
#: srso_apply_mitigation(); 706d51681d63, e7862eda309e, fb3bd914b3ec).
LINKED, NONE, RETPOLINES, SAFE, SRSO = MITIGATIONS = ("linked", "none", "retpolines", "safe-returns", "srso")
#: The mitigations that some CPU is booted with.
WITH = (RETPOLINES, SAFE, SRSO)
#: Mitigation -> the thunk that a return jumps to.
RETURN_THUNKS = {LINKED: "__x86_return_thunk", SAFE: "srso_return_thunk", SRSO: "srso_return_thunk"}
#: Mitigations with which an indirect branch stays the retpoline that it is linked as.
RETPOLINED = (RETPOLINES, SRSO)
#: Instructions that SRSO gives each return more, JMP, CALL, LEA and RET instead of RET; and each call of what a register holds,
#: whose thunk is CALL, MOV and such a return, and whose site no NOP fills (counted in Debian's images, see the tests).
RETURN_MORE, INDIRECT_MORE = 3, 5
