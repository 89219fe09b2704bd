"""The waits that a kernel makes before it frees an ops: which flavours of RCU it calls, by its release and configuration.

Until v6.12 ftrace_shutdown() calls synchronize_rcu_tasks_rude(), which has every CPU switch tasks; since then that returns at once
on ISAs whose entry code cannot be traced (a073de98c2d0), as on these three. Then it calls synchronize_rcu_tasks(), which waits for
each task that was runnable until it switches by itself, and not for idle ones: up to v6.9 in preemptible kernels, since then in all
(64ec8b6ad619), but without CONFIG_TASKS_RCU, so without preemption, it is synchronize_rcu(). Trace Tasks RCU is for sleepable BPF
programs, which the lab has none of. A BPF trampoline ends by call_rcu_tasks(), only with CONFIG_TASKS_RCU.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ftrace.releases import parse
from ...ftrace.steps import Sync, Wait
from ..subject import Planned, Subject, replanned

#: The last release in which the rude wait does anything here, and the first in which the other one does not depend on preemption.
RUDE_UNTIL, ALWAYS_SINCE = "v6.12", "v6.10"


def flavours(release: str, preemptible: bool) -> list[Sync]:
    """The waits of a release's ftrace_shutdown(), in order."""
    rude = [Sync.RCU_TASKS_RUDE] if parse(release) <= parse(RUDE_UNTIL) else []
    if preemptible:
        return [*rude, Sync.RCU_TASKS]
    return [*rude, Sync.RCU] if parse(release) >= parse(ALWAYS_SINCE) else rude


def configured(subject: Subject, release: str) -> Subject:
    """A plan with the waits that such a kernel makes."""

    def instead(number: int) -> Sequence[Planned]:
        step = subject.steps[number]
        if isinstance(step, Wait) and step.sync is Sync.CALL_RCU_TASKS and not subject.preemptible:
            return []
        if not isinstance(step, Wait) or step.sync is not Sync.RCU_TASKS:
            return [step]
        return [Wait(sync, step.why) for sync in flavours(release, subject.preemptible)]

    return replanned(subject, instead)
