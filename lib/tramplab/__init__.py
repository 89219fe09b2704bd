"""Tramplab: five design arguments about Linux function tracing, re-run under emulation."""

from .errors import GuestFault, StepLimit, TramplabError
from .ftrace.bpf import Bpf
from .ftrace.kernel import Kernel
from .ftrace.ops import Direct, Ops

__all__ = ["Bpf", "Direct", "GuestFault", "Kernel", "Ops", "StepLimit", "TramplabError"]
__version__ = "0.1.0"
