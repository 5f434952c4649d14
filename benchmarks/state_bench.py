"""What state costs: `python benchmarks/state_bench.py [codec|epochs|quarter|long]…` prints the figures below.

See benchmarks/README.md for the machine; each line says what was measured, in which unit.
"""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "operators"))

from sqlstream_operators.codec.keys import decode_keys, encode_keys, key_groups
from sqlstream_operators.codec.rows import decode_rows, encode_rows
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion

SCHEMA = StateSchema(
    "bench",
    "GroupAggregate",
    "count and sum by id",
    (
        StateTable.of(
            "sums",
            "key",
            key=[StateField("id", t.BIGINT, "id")],
            value=[StateField("n", t.BIGINT, "n"), StateField("total", t.DOUBLE, "total")],
        ),
    ),
)


def best(work: Callable[[], Any], times: int = 5) -> float:
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def codec(n: int = 1_000_000) -> None:
    """Millions of keys or rows per second on one core."""
    numbers = pa.array(np.random.default_rng(1).integers(0, 1 << 40, n))
    texts = pa.array([f"user-{i}" for i in range(n)])
    table = pa.table(
        {"a": numbers, "b": pa.array(np.arange(n) * 0.5), "c": pa.array(np.arange(n, dtype=np.int32))}
    )
    fixed = [StateField("a", t.BIGINT, "a"), StateField("b", t.DOUBLE, "b"), StateField("c", t.INTEGER, "c")]
    wide = [*fixed, StateField("s", t.VARCHAR, "s")]
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, n + 1, 4), pa.int32()), numbers)
    listed = [StateField("l", t.array(t.BIGINT), "l")]
    list_table = pa.table({"l": lists})
    text_table = table.append_column("s", texts)
    int_keys = encode_keys([numbers], [t.BIGINT])
    text_keys = encode_keys([numbers, texts], [t.BIGINT, t.VARCHAR])
    fixed_rows, wide_rows = encode_rows(table, fixed), encode_rows(text_table, wide)
    list_rows = encode_rows(list_table, listed)
    jobs: list[tuple[str, Callable[[], Any], int]] = [
        ("key groups of BIGINT", lambda: key_groups([numbers], 128), n),
        ("key groups of VARCHAR (11 bytes)", lambda: key_groups([texts], 128), n),
        ("encode keys BIGINT", lambda: encode_keys([numbers], [t.BIGINT]), n),
        ("decode keys BIGINT", lambda: decode_keys(int_keys, [t.BIGINT]), n),
        ("encode keys BIGINT, VARCHAR", lambda: encode_keys([numbers, texts], [t.BIGINT, t.VARCHAR]), n),
        ("decode keys BIGINT, VARCHAR", lambda: decode_keys(text_keys, [t.BIGINT, t.VARCHAR]), n),
        ("encode rows BIGINT, DOUBLE, INTEGER", lambda: encode_rows(table, fixed), n),
        ("decode rows BIGINT, DOUBLE, INTEGER", lambda: decode_rows(fixed_rows, fixed), n),
        ("encode rows … and VARCHAR", lambda: encode_rows(text_table, wide), n),
        ("decode rows … and VARCHAR", lambda: decode_rows(wide_rows, wide), n),
        ("encode rows BIGINT[] of 4", lambda: encode_rows(list_table, listed), len(lists)),
        ("decode rows BIGINT[] of 4", lambda: decode_rows(list_rows, listed), len(lists)),
    ]
    for name, work, rows in jobs:
        print(f"{name:40} {rows / best(work) / 1e6:8.1f} M/s")


def epoch(
    root: Path, version: ShardVersion, ids: np.ndarray, blind: bool = False
) -> tuple[ShardVersion, list[float], int]:
    """One epoch that reads and writes the rows of these ids; ms of open, read and write, commit, close."""
    rows = pa.table({"id": ids, "n": ids, "total": ids * 0.5})
    marks = [time.perf_counter()]
    store = ShardStore.open(
        SCHEMA,
        0,
        1,
        128,
        version,
        checkpoint=CheckpointStore(root / "checkpoint"),
        local_dir=root / "local",
        epoch=version.version + 1,
    )
    with store:
        marks.append(time.perf_counter())
        if not blind:
            store.get("sums", rows)
        store.put("sums", rows)
        marks.append(time.perf_counter())
        version = store.commit()
        marks.append(time.perf_counter())
        level0 = store._cache.rocks.level0_files()
    marks.append(time.perf_counter())
    return version, [1000 * (b - a) for a, b in itertools.pairwise(marks)], level0


def fill(root: Path, keys: int) -> ShardVersion:
    """A store with this many keys, written in random order."""
    ids = np.random.default_rng(2).permutation(keys)
    version = ShardVersion.empty()
    for start in range(0, keys, 500_000):
        version, _, _ = epoch(root, version, ids[start : start + 500_000], blind=True)
    return version


def report(name: str, times: list[list[float]]) -> float:
    total = [sum(parts) for parts in times]
    split = " ".join(f"{statistics.median(part):6.1f}" for part in zip(*times, strict=True))
    print(
        f"{name:34} median {statistics.median(total):6.1f} mean {statistics.mean(total):6.1f} "
        f"max {max(total):7.1f} ms   open/work/commit/close medians {split}"
    )
    return statistics.median(total)


def _measure(root: str, version: ShardVersion, keys: int, rows: int, out: Any) -> None:
    rng = np.random.default_rng(3)
    times = []
    for _ in range(60):
        version, parts, _ = epoch(Path(root), version, rng.integers(0, keys, rows))
        times.append(parts)
    # Not ru_maxrss: a spawned process inherits that of its parent.
    peak = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    out.put((times, int(peak.split()[1]) / 1024))


def epochs(sizes: tuple[int, ...] = (10_000, 1_000_000, 10_000_000), rows: int = 10_000) -> None:
    """An epoch of some random rows, read and written, while the state grows; a fresh process each."""
    medians = []
    for keys in sizes:
        root = Path(tempfile.mkdtemp(prefix="state-bench-"))
        try:
            start = time.perf_counter()
            version = fill(root, keys)
            print(f"{keys:,} keys written in {time.perf_counter() - start:.1f} s")
            context = multiprocessing.get_context("spawn")
            out = context.Queue()
            process = context.Process(target=_measure, args=(str(root), version, keys, rows, out))
            process.start()
            times, memory = out.get()
            process.join()
            medians.append(report(f"{rows:,} of {keys:,} keys", times[5:]))
            print(f"{'':34} worker's memory at most {memory:.0f} MiB")
        finally:
            shutil.rmtree(root)
    print(f"epoch at {sizes[-1]:,} keys / at {sizes[0]:,} keys: {medians[-1] / medians[0]:.2f}×")


def quarter() -> None:
    """The same epochs as one of four shards sees them."""
    epochs((2_500, 2_500_000), 2_500)


def long(count: int = 500, keys: int = 200_000) -> None:
    """500 epochs over the same keys: does anything pile up?"""
    root = Path(tempfile.mkdtemp(prefix="state-bench-"))
    try:
        rng = np.random.default_rng(4)
        version, times, most = ShardVersion.empty(), [], 0
        for i in range(count):
            version, parts, level0 = epoch(root, version, rng.integers(0, keys, 10_000))
            times.append(parts)
            most = max(most, level0)
            if i + 1 in (count // 5, count // 2, count):
                report(f"epochs {max(0, i - 99)} to {i} of {keys:,} keys", times[-100:])
        local = sum(path.stat().st_size for path in (root / "local").rglob("*") if path.is_file())
        needed = sum(file.bytes for file in version.snapshot) + version.delta_bytes
        print(
            f"files in level 0 at most {most}; local {local / 1e6:.1f} MB, version {needed / 1e6:.1f} MB for "
            f"{version.rows:,} rows, {len(version.deltas)} deltas, {len(version.snapshot)} snapshot files"
        )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["codec", "epochs", "quarter", "long"]
    for name in chosen:
        jobs: dict[str, Callable[[], None]] = {
            "codec": codec,
            "epochs": epochs,
            "quarter": quarter,
            "long": long,
        }
        jobs[name]()
