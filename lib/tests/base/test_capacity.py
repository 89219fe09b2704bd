"""How much of a machine is used: processors by affinity and quota, memory by what is free and by limits."""

import os
import subprocess
import sys

import pytest

from tramplab.base.processes import capacity

GB = 1 << 30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with 8 processors and 16 GB free: its /proc and its control groups are folders, where files can be written."""
    monkeypatch.setattr(capacity, "PROC", tmp_path / "proc")
    monkeypatch.setattr(capacity, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def write(name: str, text: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    write("proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:   {16 << 20} kB\n")
    return write


def test_without_limits_all_is_used(system):
    assert (capacity.processors(), capacity.memory()) == (8, 16 * GB)
    assert capacity.at_once(500) == 8
    assert capacity.at_once(4000) == 4  # 16,384 MB hold four
    assert capacity.at_once(4000, spare=1000) == 3
    assert capacity.at_once(40_000) == 1


def test_a_system_that_says_nothing_of_memory(tmp_path, monkeypatch):
    for folder in ("PROC", "GROUPS"):
        monkeypatch.setattr(capacity, folder, tmp_path)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert capacity.memory() is None
    assert capacity.at_once(10**9) == os.cpu_count()


@pytest.mark.parametrize(
    "quota, processors", [("50000 100000", 1), ("150000 100000", 2), ("max 100000", 8), ("2000000 100000", 8)]
)
def test_limits_of_control_groups(system, quota, processors):
    """Of the process's own, and of those around it."""
    system("proc/self/cgroup", "4:memory:/x\n0::/a/b\n")
    system("groups/a/cpu.max", quota + "\n")
    system("groups/a/b/cpu.max", "max 100000\n")
    system("groups/a/memory.max", "max\n")
    system("groups/a/memory.current", f"{GB}\n")
    assert (capacity.processors(), capacity.memory()) == (processors, 16 * GB)
    system("groups/a/b/memory.max", f"{2 * GB}\n")
    system("groups/a/b/memory.current", f"{GB}\n")
    system("groups/a/b/memory.stat", f"anon 1\ninactive_file {GB // 4}\nactive_file {GB // 4}\n")
    assert capacity.memory() == GB + GB // 2


def test_a_container_sees_its_own_group_alone(system):
    system("proc/self/cgroup", "0::/\n")
    system("groups/cpu.max", "300000 100000\n")
    assert capacity.processors() == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux has this")
def test_a_process_bound_to_one_processor_uses_one():
    bound = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code = f"{bound}; from tramplab.base.processes import capacity; print(capacity.at_once(1))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True).stdout == "1\n"
