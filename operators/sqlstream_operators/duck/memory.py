"""How much memory this process may use: the machine's, or less where a control group says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def available(root: Path = _ROOT) -> int:
    """Bytes that this process and its kin may use together: the least of the machine's memory and the limits of its groups.

    `root` is where `proc` and `sys` are found. Reads control groups of version 2 (`memory.max` and `memory.high` of the
    group and of all above it) and of version 1 (`memory.limit_in_bytes`).
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    for folder, names in _groups(root):
        for name in names:
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit() and int(text) > 0:
                yield int(text)


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The folders that may have limits of this process, from its own group up, and the names of their files.

    Inside a container the path of the group may be the host's: then only the mount's own folder is there.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names: tuple[str, ...]
        if not controllers:
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.high")
        elif "memory" in controllers.split(","):
            mount, names = root / "sys/fs/cgroup/memory", ("memory.limit_in_bytes",)
        else:
            continue
        below = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(below), -1, -1):
            yield mount.joinpath(*below[:depth]), names
