"""Which of the guest's functions an fprobe's handlers are."""

from __future__ import annotations

from .request import Fprobe


def handlers(request: Fprobe) -> dict[str, str]:
    """Members of struct fprobe, and the guest functions that they lead to."""
    found = {}
    if request.bpf:
        return {"entry_handler": "bpf_fprobe_entry"} | ({"exit_handler": "bpf_fprobe_exit"} if request.exit else {})
    if request.entry:
        counting = "lab_fprobe_decline" if request.declines else "lab_fprobe_entry"
        found["entry_handler"] = "lab_fprobe_observe_entry" if request.observe else counting
    if request.exit:
        found["exit_handler"] = "lab_fprobe_observe_exit" if request.observe else "lab_fprobe_exit"
    return found
