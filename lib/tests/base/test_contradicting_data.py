"""Data files with a mistake, in an entry or in what entries owe each other, are refused in one sentence that says where it is."""

import pytest

from support.base.data import copied, read
from support.base.edited import check_refused
from tramplab.ftrace.releases import LATEST, known

FACTS, PLACES, LIST, FRAMES = "releases.yml", "addresses.yml", "kernels/packages.yml", "kernel-frames.json"
HOOKS = "native/epyc-zen4-vm-asm.json"
CORE = "cores/zen3.yml"
KERNEL = "kernels/debian-6.12-arm64.json"
KNOWN = f"{known()[0]} to {known()[-1]}"


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (FACTS, "first: v5.17", "first: v4.17", "majors has no 4, the last release of which it must tell."),
        (FACTS, "shown: [v5.17, v6.1,", "shown: [v6.1, v5.17,", "shown: the releases must stand in their order, the newest"),
        (FACTS, f"{LATEST}]", f"{LATEST}9]", f"shown: {LATEST}9 is not from {KNOWN}."),
        (FACTS, "since: v6.2, source: arm64-args", "since: v6.2, source: arm64-arg", "arm64, args: unknown source 'arm64-arg'"),
        (FACTS, "until: v6.1, source: arm64-regs", "until: v5.1, source: arm64-regs", "arm64, regs: v5.5 comes after v5.1;"),
        (FACTS, "until: v5.18, source: arm64-graph", "until: v5.16, source: arm64-graph", "arm64, graph_slot: nobody can ask"),
        (FACTS, "since: v6.3, until: v6.3,", "since: v6.2, until: v6.3,", "common, counter_bits: a value must end (until)"),
        (FACTS, "value: either, until: v6.4,", "value: either,", "reach, arm64, modules: a value must end (until) before"),
        (FACTS, "source: objpool-mask", "source: rethook-objpool", "nothing rests on the source objpool-mask;"),
        (FACTS, "    kprobes_on_ftrace: [true]", "    kprobe_on_ftrace: [true]", "hypothetical, arm64: unknown feature 'kprobe_o"),
        (FACTS, "by: direct-hash, fixed", "by: direct-hsh, fixed", "live_patch_then_fexit: unknown source 'direct-hsh'; did"),
        (FACTS, "from: v6.4, to: v6.7", "from: v6.8, to: v6.7", "broken, x86_64, direct_beside_ops: v6.8 comes after v6.7; from"),
        (FACTS, "built: direct_without_regs", "built: fprobe_list_end", "v6.4 has no feature 'fprobe_list_end'"),
        (FACTS, "from: v6.4, to: v6.7", "from: v6.4, to: v6.20", f"direct_beside_ops: v6.20 is not from {KNOWN}."),
        (FACTS, f"last: {known()[-1]}", f"lost: {known()[-1]}", "the file: unknown key 'lost'; did you mean last"),
        (FACTS, f"last: {known()[-1]}", "last: 7.2", "last: a release is written like v6.16, not 7.2; put it in quotes."),
        (FACTS, "majors: {5: 19,", "majors: {5: many,", "majors, 5: expected `int`, got `str`."),
        (FACTS, "value: nop5,", "value: nop,", "x86_64, site: unknown value 'nop'; did you mean nop5"),
        (FACTS, "value: true, source: x86-fprobe,", "value: 1, source: x86-fprobe,", "common, fprobe_guard: unknown value '1'."),
        (FACTS, "since: v6.3, until: v6.3,", "since: 6.3, until: v6.3,", "common, counter_bits, number 2, since: a release is"),
        (FACTS, "  fprobe_guard:", "  fprobe_gard:", "common: unknown feature 'fprobe_gard'; did you mean fprobe_guard"),
        (FACTS, "source: x86-fprobe, sure: inferred", "source: x86-fprobe, sure: guessed", "sure: unknown value 'guessed'."),
        (FACTS, "commit: f3bea49115b2", "commit: f3be", "sources, x86-per-ops, commit: a commit is written with 12 digits,"),
        (PLACES, "of: zero,", "of: zeros,", "ranges, number 1, from, of: unknown value 'zeros'; did you mean zero?"),
        (PLACES, "source: arm64-kaslr", "source: arm64-kasl", "arm64 BPF, KASLR: unknown source 'arm64-kasl'; did you mean"),
        (PLACES, "since: v6.9", "since: v6.99", f"arm64 BPF, nokaslr: since v6.99 is not from {KNOWN}."),
        (PLACES, "plus: 0xffffffffff000000", "plus: 0xffffffffb0000000", "x86_64 modules, BPF: the lower address comes first,"),
        ("function-sizes.yml", "[50, 120]", "[50, 12]", "sizes go from 0 to 100 percent, and percents and bytes rise"),
        ("function-sizes.yml", "mean: 254.0", "mean: 25400", "the site fits into the smallest function, and the mean is a"),
        ("context-programs.yml", "six-arguments", "first-argument", "the name first-argument is given twice; a name is for one"),
        ("context-programs.yml", "{argument1: di, ", "{", "registers: argument1 is not there on x86_64."),
        ("context-programs.yml", "  x86_64: {}", "  x86: {}", "renamed: unknown key 'x86'; did you mean x86_64"),
        (LIST, 'version: "6.1.176-1"', 'version: "6.2.176-1"', "debian-6.1-amd64: amd64 6.2.176-1 is no v6.1 for x86_64."),
        (LIST, "suite: bookworm", "suite: Bookworm", "debian-6.1-amd64, suite: a suite is a code name like trixie,"),
        (KERNEL, '"loads": ', '"loaded": ', "hooks, number 1, components, site: unknown key 'loaded'; did you mean loads"),
        (KERNEL, '"frame_bytes": 0', '"frame_bytes": null', "hooks, number 1, frame_bytes: expected `int`, got `null`."),
        ("kernel-probes.json", '"fprobe"', '"fprobes"', "unknown value 'fprobes'; did you mean fprobe"),
        ("bpf-trampolines.json", '"fentry"', '"entry"', "unknown value 'entry'; did you mean fentry"),
        (FRAMES, '"sha256": "', '"sha256": "\\ud800', "debian-6.1-amd64, sha256: a SHA-256 has 64 hexadecimal digits in small"),
        (FRAMES, '"kind": "true", ', "", "debian-6.1-amd64, frames, number 1, slots, number 5 has no kind."),
        (KERNEL, '"6.12.107-1"', '"6.12.108-1"', "is of another image than kernels/packages.yml lists: run `make kernels`."),
        ("kernel-structs.json", '"kprobe": 128', '"kprobes": 128', "debian-7.2-amd64 has other structs than are asked for: run"),
        ("kernel-probes.json", '"6.1.176-1"', '"6.1.177-1"', "debian-6.1-amd64 is of another image than is listed: run"),
        (HOOKS, '"ns_min": 3.7895', '"ns_min": 0', "rows, number 2, ns_min: a call takes more than 0 ns, not 0. The"),
        (HOOKS, '"cpu": ', '"core": ', "provenance has no cpu. The result is damaged;"),
        (HOOKS, '"ns_min": 3.7895', '"ns_min": 3.7795', "direct has another ns_min than its windows. The result is damaged;"),
        (HOOKS, '"ns_over": 2.4356', '"ns_over": 2.4456', "direct has another ns_over than ns_min less that of none. The result"),
        (HOOKS, '"cycles_over": 9.003', '"cycles_over": 9.503', "direct has cycles_over of another clock. The result is damaged;"),
        (CORE, "clock_ghz: 3.4", "clock_ghz: 0", "clock_ghz: a clock is more than 0 GHz and at most 10, not 0."),
        (CORE, "isa: x86_64", "isa: x86-64", "isa: unknown value 'x86-64'; did you mean x86_64? Known: x86_64, arm64, riscv64."),
        (CORE, "mca: znver3", "mca: 3", "mca: expected `str | null`, got `int`; put it in quotes."),
        (CORE, "title: AMD Zen 3", "title:", "title: expected `str`, got `null`."),
        (CORE, "title: AMD Zen 3", "titel: AMD Zen 3", "the file: unknown key 'titel'; did you mean title"),
        (CORE, "title: AMD Zen 3", "", "the file has no title."),
        (CORE, "title: AMD", "name: zen3\ntitle: AMD", "name: the file's name or the entry's key tells it, not 'zen3'."),
        (CORE, "load: {value: 4, low: 4,", "load: {value: -1, low: 4,", "parameters, load, value: expected `int` >= 0, not -1."),
        (CORE, "load: {value: 4, low: 4,", "load: {value: 4, low: 1.5,", "parameters, load, low: expected `int`, got `float`."),
        (CORE, "  alu: [a3, a2, a1, a0]", "  alu: []", "uses, alu: expected `array` of length >= 1, not []."),
        (CORE, "  alu: [a3, ", "  alu: [{}, ", "uses, alu, number 1: expected `str`, got `object`."),
        (CORE, "  alu: [", "  aul: [", "uses, aul: unknown value 'aul'; did you mean alu? Known: alu, multiply, divide, branch,"),
        (CORE, "cpus: ", 'cpus: "(" # ', "cpus is no pattern: missing ), unterminated subpattern at position 0."),
    ],
)
def test_a_contradiction_is_refused(tmp_path, monkeypatch, name, old, new, said):
    check_refused(copied(tmp_path, monkeypatch), name, old, new, said, read)
