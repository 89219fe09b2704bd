"""Machines that were never timed: native results as any machine might give them, to the ends of what is plausible."""

from __future__ import annotations

from hypothesis import strategies as st

from tramplab import isa as isas
from tramplab.ftrace.releases import LATEST
from tramplab.isa import ISAS
from tramplab.native import Result, default_hooks
from tramplab.native.agreement import agreed
from tramplab.trampolines import shapes

#: What /proc/cpuinfo says, and the maker: modelled cores, their neighbours, others, and what nobody has heard of.
CPUS = {
    "x86_64": [
        ("AMD EPYC, family 25, model 17, stepping 1", "AuthenticAMD"),
        ("AMD Ryzen Threadripper PRO 7995WX 96-Cores, family 25, model 24, stepping 1", "AuthenticAMD"),
        ("AMD Ryzen 12 29950X3D, family 27, model 1, stepping 0", "AuthenticAMD"),
        ("Intel(R) Core(TM) i7-6700K CPU @ 4.00GHz, family 6, model 94, stepping 3", "GenuineIntel"),
        ("Intel(R) Xeon(R) Platinum 8480+, family 6, model 143, stepping 8", "GenuineIntel"),
        ("Hygon C86 7185 32-core Processor, family 24, model 0, stepping 1", "HygonGenuine"),
        ("QEMU Virtual CPU version 2.5+, family 15, model 107, stepping 1", "unknown"),
    ],
    "arm64": [
        ("Raspberry Pi 4 Model B Rev 1.4, CPU implementer 0x41, CPU variant 0x0, CPU part 0xd08", "0x41"),
        ("CPU implementer 0x41, CPU variant 0x1, CPU part 0xd4f", "0x41"),
        ("CPU implementer 0xc0, CPU variant 0x5, CPU part 0xac3", "0xc0"),
        ("unknown", "unknown"),
    ],
    "riscv64": [
        ("StarFive VisionFive 2 v1.3B, uarch sifive,u74-mc, mvendorid 0x489", "sifive"),
        ("Banana Pi BPI-F3, uarch spacemit,x60, mvendorid 0x710", "spacemit"),
        ("Sipeed Lichee Pi 4A, uarch thead,c910, mvendorid 0x5b7", "thead"),
        ("unknown", "unknown"),
    ],
}
#: Nanoseconds of a call: from a tenth to a hundred thousand.
LEAST, MOST = 0.1, 100_000.0


def result(
    isa: str,
    times: dict[str, float],
    release: str = LATEST,
    *,
    cpu: tuple[str, str] = ("made up", "unknown"),
    base: float = 1.0,
    clock: float = 0.5,
    unquiet: tuple[str, ...] = (),
    unsteady: tuple[str, ...] = (),
    columns: dict[str, dict[str, object]] | None = None,
    **more: object,
) -> Result:
    """A result from times over an unhooked call of `base` ns, on a clock of 1 / `clock` GHz; the windows agree on all hooks but
    the unquiet ones, and all have one speed but the unsteady ones. more: columns of every row."""
    direct = times.get("direct", 0)
    clocks, rows = (clock,) * 3, []
    for hook, over in {"none": 0.0, **times}.items():
        least = max(base + over, 0.0)
        windows = [least, least * (1.5 if hook in unquiet else 1), least * (1.4 if hook in unquiet else 1)]
        none = None if hook == "none" else [base * w for w in ((1.0, 1.5, 1.4) if "none" in unquiet else (1.0,) * 3)]
        spread = {"ns_min": least, "ns_q1": least, "ns_median": least * (1.2 if hook in unsteady else 1), "ns_q3": 2 * least}
        rows.append(
            {
                "hook": hook,
                "code": "0" * 16,
                **spread,
                "ns_over": round(over, 4),
                "cycles_over": round(over / clock, 4),
                "ratio_direct": round(over / direct, 4) if direct > 0 else None,
                **more,
                **(columns or {}).get(hook, {}),
                "windows": windows,
                "steady": hook not in unsteady,
                "agreed": hook not in unsteady and agreed(windows, clocks, none),
            }
        )
    facts = {"isa": isa, "release": release, "arguments": 1, "cpu": cpu[0], "vendor": cpu[1]}
    facts |= {"date": "2026-11-22 08:50 UTC", "virtualised": "no"}
    return Made(tuple(rows), clocks, (), (), facts)


class Made(Result):
    """A result whose failing example can be read."""

    def _repr_pretty_(self, printer, cycle) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        times = {r["hook"]: r["ns_over"] for r in self.rows if r["agreed"]}
        return f"<{self.provenance['isa']} {self.provenance['cpu']!r} {times} unquiet {self.unquiet} clock {self.clock[0]}>"


def shaped(isa: str, times: dict[str, float], **more) -> Result:
    """A result of shapes: see result()."""
    every = {str(s): s for s in shapes.GRID}
    columns = {n: {"saves": s.saves, "nested": s.nested, "balanced": s.balanced} for n, s in every.items() if n in times}
    columns["none"] = {"saves": None, "nested": None, "balanced": None}
    return result(isa, times, columns=columns, **more)


#: The result with which pages did not build: one digit more than elsewhere, and a counter.
ONE_DIGIT_MORE = result(
    "x86_64",
    {h: 16.64 * (n + 1) for n, h in enumerate(default_hooks(isas.get("x86_64")))},
    cpu=CPUS["x86_64"][1],
    clock=0.2703,
    branch_misses=1000.25,
)

_times = st.floats(-1.3, 5).map(lambda e: round(10**e, 4)) | st.sampled_from([-0.05, 0.0, LEAST, 9.995, 99.95, MOST])


@st.composite
def _results(draw, names: dict[str, tuple[str, ...]], make):
    """Some of the names of an ISA, with times; counters or none, windows that agree or not."""
    isa = draw(st.sampled_from(list(ISAS)))
    some = draw(st.lists(st.sampled_from(names[isa]), unique=True, max_size=len(names[isa])) | st.just(list(names[isa])))
    times = dict(zip(some, draw(st.lists(_times, min_size=len(some), max_size=len(some))), strict=True))
    more = draw(st.sampled_from([{}, {"branch_misses": 0.0002}, {"branch_misses": 1234.5678}, {"branch_misses": None}]))
    made = make(
        isa,
        times,
        cpu=draw(st.sampled_from(CPUS[isa])),
        base=draw(st.sampled_from([LEAST, 1.5, MOST])),
        clock=draw(st.sampled_from([0.17, 0.5, 20.0])),
        unquiet=draw(st.sampled_from([(), ("none",), tuple(some), tuple(some[:2])])),
        unsteady=draw(st.sampled_from([(), tuple(some), tuple(some[1:4])])),
        **more,
    )
    made.provenance["virtualised"] = draw(st.sampled_from(["no", "QEMU Standard PC (Q35 + ICH9, 2009)"]))
    failures = draw(st.sampled_from([(), ("direct crashed natively: SIGILL at ftrace_caller+0x10.",)]))
    return Made(made.rows, made.clock, made.warnings, failures, made.provenance)


def hook_results():
    """Results of hooks."""
    return _results({name: default_hooks(isas.get(name)) for name in ISAS}, result)


def shape_results():
    """Results of shapes."""
    return _results(dict.fromkeys(ISAS, tuple(map(str, shapes.GRID))), shaped)


#: Names of files in data/native/.
FILES = st.lists(
    st.sampled_from(["a", "epyc-vm-hooks", "threadripper-pro-7995wx-96-cores-on-the-desk-of-somebody", "Ünï çødé", "x" * 90]),
    unique=True,
    max_size=5,
)
