"""How much memory a task may use: what the machine has, and what control groups leave of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream_operators.duck import memory

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{300 * MIB}\n"}, 300),
        # The limit of a group above, and a softer one.
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max",
                "sys/fs/cgroup/a/memory.max": f"{400 * MIB}",
                "sys/fs/cgroup/a/memory.high": f"{200 * MIB}",
            },
            200,
        ),
        # In a container, whose path is the host's.
        ({"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": f"{100 * MIB}"}, 100),
        # Not what lies above the groups.
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/memory.max": f"{100 * MIB}"}, None),
        # Only the softer one, in a group with a colon; a limit of nothing says nothing.
        (
            {
                "proc/self/cgroup": "0::/a:b\n",
                "sys/fs/cgroup/a:b/memory.high": f"{200 * MIB}",
                "sys/fs/cgroup/memory.max": "0",
            },
            200,
        ),
        # Version 1, where the group of the memory counts.
        (
            {
                "proc/self/cgroup": "5:cpu:/other\n3:memory:/own\n",
                "sys/fs/cgroup/memory/own/memory.limit_in_bytes": f"{500 * MIB}",
                "sys/fs/cgroup/memory/other/memory.limit_in_bytes": f"{100 * MIB}",
            },
            500,
        ),
        # Version 1, where "no limit" is a very large number.
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/\n3:memory:/docker/1\n1:name=systemd:/\n",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": f"{500 * MIB}",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            500,
        ),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    expected = MACHINE if limit is None else min(MACHINE, limit * MIB)
    assert memory.available(write(tmp_path, files)) == expected
