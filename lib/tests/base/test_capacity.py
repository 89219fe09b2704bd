"""How much of a machine is used: processors by affinity and quota, memory by what is free and by limits."""

import os
import subprocess
import sys

import pytest

from tramplab.base import capacity

GB = 1 << 30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with 8 processors and 16 GB free: its /proc and its control groups are folders, where files can be written."""
    monkeypatch.setattr(capacity, "PROC", tmp_path / "proc")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def write(name: str, text: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def mounted(groups: str, *mounts: tuple[str, str, str, str]):
        """What /proc says of groups; a mount is what of the hierarchy is mounted, where, and its kind and options."""
        lines = (f"1 1 0:1 {root} {tmp_path}/{where} rw - {kind} x rw,{options}\n" for root, where, kind, options in mounts)
        write("proc/self/mountinfo", "1 1 0:1 / / rw shared:1 - ext4 x rw\n" + "".join(lines))
        write("proc/self/cgroup", groups)

    write("proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:   {16 << 20} kB\n")
    write.mounted = mounted
    return write


def test_without_limits_all_is_used(system):
    assert (capacity.processors(), capacity.memory()) == (8, 16 * GB)
    assert capacity.at_once(500) == 8
    assert capacity.at_once(4000) == 4  # 16,384 MB hold four
    assert capacity.at_once(4000, spare=1000) == 3
    assert capacity.at_once(40_000) == 1


def test_a_system_that_says_nothing_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "PROC", tmp_path)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert capacity.memory() is None
    assert capacity.at_once(10**9) == os.cpu_count()


@pytest.mark.parametrize(
    "quota, processors", [("50000 100000", 1), ("150000 100000", 2), ("max 100000", 8), ("2000000 100000", 8)]
)
def test_version_2(system, quota, processors):
    system.mounted("0::/a/b\n", ("/", "two", "cgroup2", ""))
    system("two/a/cpu.max", quota + "\n")  # of a group around
    system("two/a/b/cpu.max", "max 100000\n")
    system("two/a/memory.max", "max\n")
    system("two/a/memory.current", f"{GB}\n")
    assert (capacity.processors(), capacity.memory()) == (processors, 16 * GB)
    system("two/a/b/memory.max", f"{2 * GB}\n")
    system("two/a/b/memory.current", f"{GB}\n")
    system("two/a/b/memory.stat", f"anon 1\ninactive_file {GB // 4}\nactive_file {GB // 4}\n")
    assert capacity.memory() == GB + GB // 2


def test_version_1_in_a_container(system):
    """What is mounted there is the container's own group; its path is one of the host."""
    groups = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n1:name=systemd:/docker/x\n0::/\n"
    mounts = (("/docker/x", "cpu", "cgroup", "cpu,cpuacct"), ("/docker/x", "memory", "cgroup", "memory"))
    system.mounted(groups, *mounts)
    system("cpu/cpu.cfs_quota_us", "-1\n")
    system("cpu/cpu.cfs_period_us", "100000\n")
    system("memory/memory.limit_in_bytes", "9223372036854771712\n")
    system("memory/memory.usage_in_bytes", "1\n")
    assert (capacity.processors(), capacity.memory()) == (8, 16 * GB)
    system("cpu/cpu.cfs_quota_us", "300000\n")
    system("memory/memory.limit_in_bytes", f"{3 * GB}\n")
    system("memory/memory.usage_in_bytes", f"{2 * GB}\n")
    system("memory/memory.stat", "inactive_file 1\nactive_file 2\ntotal_inactive_file 5\ntotal_active_file 7\n")
    assert (capacity.processors(), capacity.memory()) == (3, GB + 12)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux has this")
def test_a_process_bound_to_one_processor_uses_one():
    bound = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code = f"{bound}; from tramplab.base import capacity; print(capacity.at_once(1))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True).stdout == "1\n"
