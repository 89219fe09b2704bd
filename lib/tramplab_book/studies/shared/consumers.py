"""What charts call the consumers of registers, in as few letters as a row beside three panels has."""

from __future__ import annotations

#: Consumer (sparsity/consumers/consumers.py) -> its name in charts, in their order.
NAMES = {
    "argument": "arguments",
    "return-value": "value",
    "instruction-pointer": "ip",
    "stack-pointer": "sp",
    "stack-word": "stack",
    "user-mode": "user mode",
    "callchain": "callchain",
    "interrupts": "irqs",
    "conditions": "flags",
    "full": "full set",
    "emulate-nop": "nop",
    "emulate-branch": "branch",
    "emulate-call": "call",
    "emulate-step": "step",
}
