"""Programs that take their context for a struct pt_regs, rewritten for the light structure that a trampoline passes, or refused.

No kernel does this for kprobe programs: it was proposed. The pieces: `encoding` and `text` are BPF's instructions as bytes and as
text, `verify` explores every path of a program and says what it does with its context, `layout` says where a light structure has
the fields, `rewrite` changes offsets or refuses, `run` interprets a program, and `programs` are examples with what each shows.
"""

from .layout import Layout, layout
from .programs import PROGRAMS, Written, program
from .refusal import Refused
from .rewrite import Rewritten, rewrite

__all__ = ["PROGRAMS", "Layout", "Refused", "Rewritten", "Written", "layout", "program", "rewrite"]
