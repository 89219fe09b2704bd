"""The machine in front of the reader: its ISA, and what makes its times worth more or less."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import isa as isas
from ..base.errors import TramplabError
from ..base.revision import of_package
from ..isa import Isa

#: The kernel's names of the ISAs (uname -m).
MACHINES = {"x86_64": "x86_64", "aarch64": "arm64", "riscv64": "riscv64"}
#: The words of cpu_model() that tell cores of one maker apart.
_NUMBERS = ("family", "model", "stepping", "marchid", "CPU variant", "CPU part", "CPU revision")
_CPU = Path("/sys/devices/system/cpu")


def isa() -> Isa:
    """The host's ISA; raises TramplabError where nothing can run natively."""
    system, name = platform.system(), platform.machine()
    if system != "Linux":
        raise TramplabError(
            f"native runs need Linux, not {system or 'this system'}; counts and estimates work everywhere."
        )
    if name not in MACHINES:
        raise TramplabError(
            f"the lab has no native run for {name or 'this machine'}, only for {', '.join(MACHINES)} (64-bit Linux)."
        )
    return isas.get(MACHINES[name])


def last_cpu() -> int:
    """The CPU to stay on: the last one this process may use, as interrupts are mostly the first one's."""
    return max(os.sched_getaffinity(0))


def machine() -> dict[str, str]:
    """The facts that tell one machine from another, as far as times go."""
    return {
        "isa": isa().name,
        "cpu": cpu_model(_read(Path("/proc/cpuinfo"))),
        "vendor": vendor(_read(Path("/proc/cpuinfo"))),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtualised": virtualised(),
    }


def name(facts: Mapping[str, object]) -> str:
    """The name of a file with the times of a machine: its maker, family, model and stepping, as far as known, and whether it is
    virtual. facts: as machine() has them.

    >>> name({"cpu": "AMD EPYC, family 25, model 17, stepping 1", "vendor": "AuthenticAMD", "virtualised": "KVM"})
    'amd-25-17-1-vm'
    >>> name({"cpu": "CPU implementer 0x41, CPU variant 0x0, CPU part 0xd08", "vendor": "0x41", "virtualised": "no"})
    '0x41-0x0-0xd08'
    """
    maker = str(facts["vendor"]).removeprefix("Genuine").removeprefix("Authentic")
    numbers = re.findall(rf"\b(?:{'|'.join(_NUMBERS)}) (\w+)", str(facts["cpu"]))
    words = [maker, *numbers, *(["vm"] if facts["virtualised"] != "no" else [])]
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def facts(cpu: int) -> dict[str, object]:
    """Provenance: where, when and under which circumstances times are taken."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        **machine(),
        "governor": _read(_CPU / f"cpu{cpu}/cpufreq/scaling_governor") or "unknown",
        "smt": {"0": "off", "1": "on"}.get(_read(_CPU / "smt/active"), "unknown"),
        "cpus": os.cpu_count(),
        "pinned to": cpu,
        "load": round(os.getloadavg()[0], 2),
    }


def warnings(facts: dict[str, Any]) -> list[str]:
    """The warnings for a reader of the times, one sentence each."""
    sentences = []
    if facts["virtualised"] != "no":
        sentences.append(
            f"virtual machine ({facts['virtualised']}): its host may take the CPU away, share its core or change the "
            "clock at any time."
        )
    if facts["governor"] not in ("performance", "unknown"):
        sentences.append(f"the CPU's frequency governor is {facts['governor']}: the clock may change during the run.")
    if facts["governor"] == "unknown":
        sentences.append("the CPU's frequency governor is not to be seen: the clock may change during the run.")
    if facts["smt"] == "on":
        sentences.append("SMT is on: whatever runs on the sibling takes its share of the core.")
    if facts["load"] > 0.5 * (facts["cpus"] or 1):
        sentences.append(f"the load was {facts['load']} on {facts['cpus']} CPUs when the run began: others were at work.")
    return sentences


def cpu_model(cpuinfo: str) -> str:
    """What /proc/cpuinfo calls the CPU, whatever the ISA words it like.

    >>> cpu_model("processor : 0\\nCPU implementer : 0x41\\nCPU part : 0xd08\\n")
    'CPU implementer 0x41, CPU part 0xd08'
    """
    found = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.+)$", cpuinfo, re.M))
    if "model name" in found:
        numbers = [f"{k.removeprefix('cpu ')} {found[k]}" for k in ("cpu family", "model", "stepping") if k in found]
        return plain(", ".join([found["model name"].strip(), *numbers]))
    board = _read(Path("/proc/device-tree/model")).rstrip("\0")
    names = ("uarch", "mvendorid", "marchid", "CPU implementer", "CPU variant", "CPU part", "CPU revision")
    return plain(", ".join([*([board] if board else []), *(f"{n} {found[n]}" for n in names if n in found)])) or "unknown"


def vendor(cpuinfo: str) -> str:
    """The maker of the core, as /proc/cpuinfo says it: a name on x86-64, a number on arm64, either on riscv64; or "unknown".

    >>> vendor("vendor_id : AuthenticAMD\\n"), vendor("CPU implementer : 0x41\\n"), vendor("uarch : sifive,u74-mc\\n")
    ('AuthenticAMD', '0x41', 'sifive')
    """
    fields = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.+)$", cpuinfo, re.M))
    named = fields.get("vendor_id") or fields.get("CPU implementer") or fields.get("uarch", "").partition(",")[0]
    return plain(named or fields.get("mvendorid") or "unknown")


def plain(text: str, longest: int = 40) -> str:
    """What a machine says of itself, as words of a sentence: printable, on one line, none longer than `longest`.

    >>> plain(" A\\tCPU\\0 ")
    'A CPU'
    """
    words = "".join(c if c.isprintable() else " " for c in text).split()
    return " ".join(w if len(w) <= longest else f"{w[: longest - 3]}..." for w in words)


def virtualised() -> str:
    """What the machine is virtualised by, as far as the system says; "no" if it is not."""
    product = " ".join(filter(None, (_read(Path(f"/sys/class/dmi/id/{n}")) for n in ("sys_vendor", "product_name"))))
    guest = re.search(r"^flags\s*:.*\bhypervisor\b", _read(Path("/proc/cpuinfo")), re.M)
    hypervisor = _read(Path("/sys/hypervisor/type")) or _read(Path("/proc/device-tree/hypervisor/compatible")).rstrip("\0")
    match = re.search(r"QEMU|KVM|VMware|VirtualBox|Xen|Virtual Machine|Amazon EC2|Google Compute", product)
    if guest or hypervisor or match:
        return plain(hypervisor or product) or "hypervisor not named"
    return "no"


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""


def _commit() -> str:
    """The checkout's commit, with a + where tracked files differ from it; "unknown" outside git."""
    now = of_package()
    if not now.commit:
        return "unknown"
    return f"{now.commit}+" if now.dirty else now.commit
