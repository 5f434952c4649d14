"""Time sqlstream, Flink SQL, Spark Structured Streaming and DuckDB's batch on the same files, in turn.

``python benchmarks/peers.py --peers HARNESS q12 q5_hop`` goes round the systems as often as ``--rounds`` says
(A B C D, A B C D, …); each turn is one process that runs the query ``--repeat`` times, and its first run,
with a cold JVM, does not count. Prints a Markdown table; the ratio in it is taken inside a round, so a load
that lasts falls on both sides; one that comes and goes does not: see the last column. ``--report FILE``
prints the table of an earlier run again. Exits 1 if a turn failed or if the rows out of sqlstream or Flink
are not as many as DuckDB's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEMS = ("sqlstream", "flink", "spark", "spark_large", "duckdb")
# Of 64 files. Spark's time for q12 halves with batches four times as large, so it is measured with both.
FILES_PER_TRIGGER = {"spark": 4, "spark_large": 16}
EXACT = ("sqlstream", "flink")  # Spark never closes the windows that are open when bounded input ends
# Queries whose result changes: sqlstream's rows out are changes, so they are not compared with DuckDB's rows.
UPDATING = ("q4", "q9", "q15", "q16", "q17", "q18", "q19")
TITLES = {
    "sqlstream": "sqlstream",
    "flink": "Flink SQL",
    "spark": "Spark Structured Streaming, 16 batches",
    "spark_large": "Spark Structured Streaming, 4 batches",
    "duckdb": "DuckDB, batch",
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One query over one file format; ``query`` is its name in the harness, ``name`` our pipeline file's."""

    name: str
    query: str
    format: str

    def __post_init__(self) -> None:
        if self.format not in ("parquet", "json"):
            raise ValueError(f"format must be parquet or json, not {self.format!r}")

    @property
    def pipeline(self) -> Path:
        return HERE / "pipelines" / f"{self.name}.sql"

    @property
    def flink_format(self) -> str:
        """Flink from PyPI can't read Parquet: its side gets columnar files that need no parsing at all."""
        return "bin" if self.format == "parquet" else "json"


BENCHMARKS = {
    b.name: b
    for query in ("q0", "q2", "q12", "q5_hop")
    for b in (Benchmark(query, query, "parquet"), Benchmark(f"{query}_json", query, "json"))
} | {
    q: Benchmark(q, q, "parquet")
    for q in ("q1", "q3", "q5", "q7", "q8", "q11", "q14", "q20", "q21", "q22", *UPDATING)
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One process of one system: seconds of its runs, the first one cold, or ``error``.

    ``peak_mb`` is the memory of all its processes together; ``others_cores`` how many cores worked for
    others meanwhile.
    """

    benchmark: str
    system: str
    round: int
    runs: tuple[float, ...] = ()
    input_rows: int = 0
    rows_out: int | None = None
    peak_mb: int = 0
    others_cores: float = 0.0
    error: str = ""
    detail: dict[str, object] = field(default_factory=dict)

    @property
    def warm(self) -> tuple[float, ...]:
        return self.runs[1:]

    @property
    def batches(self) -> int | None:
        """Micro-batches of the last run; None for a system that has none."""
        number = self.detail.get("batches")
        return number if isinstance(number, int) else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, median and maximum of some figures."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> Spread:
        """Raises ValueError for no figures.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(low=1.0, median=2.0, high=3.0)
        """
        ordered = sorted(figures)
        if not ordered:
            raise ValueError("no figures")
        return cls(ordered[0], statistics.median(ordered), ordered[-1])

    def __str__(self) -> str:
        return " / ".join(f"{x:.3g}" if x < 100 else f"{x:,.0f}" for x in (self.low, self.median, self.high))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a system's warm runs, and its time over the baseline's, round by round."""

    benchmark: str
    system: str
    seconds: Spread
    times_baseline: Spread | None
    rows_per_second: float
    rows_out: int | None
    batches: int | None
    peak_mb: int
    others_cores: float


def rows_of(turns: Sequence[Turn], baseline: str) -> list[Row]:
    """Summarise the turns that have figures, in order of first appearance."""
    good = [t for t in turns if t.warm]
    medians = {(t.benchmark, t.system, t.round): statistics.median(t.warm) for t in good}
    rows = []
    for benchmark, system in dict.fromkeys((t.benchmark, t.system) for t in good):
        mine = [t for t in good if (t.benchmark, t.system) == (benchmark, system)]
        ratios = [
            medians[benchmark, system, t.round] / medians[benchmark, baseline, t.round]
            for t in mine
            if (benchmark, baseline, t.round) in medians
        ]
        seconds = Spread.of(s for t in mine for s in t.warm)
        rows.append(
            Row(
                benchmark=benchmark,
                system=system,
                seconds=seconds,
                times_baseline=Spread.of(ratios) if ratios else None,
                rows_per_second=mine[0].input_rows / seconds.median,
                rows_out=mine[-1].rows_out,
                batches=mine[-1].batches,
                peak_mb=max(t.peak_mb for t in mine),
                others_cores=statistics.median(t.others_cores for t in mine),
            )
        )
    return rows


def table(rows: Sequence[Row], baseline: str) -> str:
    """The rows as a Markdown table."""
    lines = [
        f"| query | system | warm seconds | time / {TITLES[baseline]}'s | thousand rows a second | rows out "
        "| batches | peak MB | cores busy with other work |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        ratio = "1" if r.system == baseline else str(r.times_baseline) if r.times_baseline else ""
        lines.append(
            f"| {r.benchmark} | {TITLES[r.system]} | {r.seconds} | {ratio} | {r.rows_per_second / 1000:,.0f} "
            f"| {'' if r.rows_out is None else f'{r.rows_out:,}'} | {r.batches or ''} | {r.peak_mb:,} "
            f"| {r.others_cores:.1f} |"
        )
    return "\n".join(lines)


def disagreements(turns: Sequence[Turn]) -> list[str]:
    """What makes figures worthless: a failed turn, or an exact system with other rows out than DuckDB."""
    found = [f"{t.benchmark}, {t.system}, round {t.round}: {t.error}" for t in turns if t.error]
    truth = {t.benchmark: t.rows_out for t in turns if t.system == "duckdb" and not t.error}
    found += [
        f"{t.benchmark}, {t.system}, round {t.round}: {t.rows_out} rows out, DuckDB has {truth[t.benchmark]}"
        for t in turns
        if t.system in EXACT and not t.error and t.benchmark in truth and t.rows_out != truth[t.benchmark]
        if not (t.system == "sqlstream" and t.benchmark in UPDATING)
    ]
    return found


def command(system: str, benchmark: Benchmark, args: argparse.Namespace) -> list[str]:
    """The command line of one turn; each prints one JSON line with the harness's fields."""
    common = [
        "--events",
        str(args.events),
        "--parallelism",
        str(args.parallelism),
        "--repeat",
        str(args.repeat),
    ]
    if system == "sqlstream":
        data = str(args.data / str(args.events))
        limit = ["--max-rows-per-epoch", str(args.max_rows_per_epoch)] if args.max_rows_per_epoch else []
        return [
            sys.executable,
            str(HERE / "sqlstream_warm.py"),
            str(benchmark.pipeline),
            "--data",
            data,
            *common[2:],
            *limit,
        ]
    launch = [str(HERE / "peer_launch.py"), str(args.peers)]
    common += ["--data", str(args.data), "--query", benchmark.query]
    match system:
        case "flink":
            options = ["--format", benchmark.flink_format, "--checkpoint", args.flink_checkpoint]
            return [str(args.flink_python), *launch, "flink_bench.py", *common, *options]
        case "spark" | "spark_large":
            files = FILES_PER_TRIGGER[system]
            options = ["--format", benchmark.format, "--files-per-trigger", str(files)]
            return [str(args.spark_python), *launch, "spark_ss_bench.py", *common, *options]
        case "duckdb":
            return [str(args.spark_python), *launch, "duckdb_bench.py", *common, "--format", benchmark.format]
    raise ValueError(f"no such system: {system!r}")


def environment(system: str) -> dict[str, str]:
    """The process's environment; sqlstream is always the one of this checkout, installed or not."""
    if system != "sqlstream":
        return dict(os.environ)
    root = HERE.parent
    paths = [root, root / "planner", root / "operators", os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(p) for p in paths if p)}


def take_turn(system: str, benchmark: Benchmark, number: int, args: argparse.Namespace) -> Turn:
    """Run one process to its end, or kill it with its children after ``--timeout`` seconds."""
    start, busy, reaped = time.monotonic(), _busy_seconds(), _reaped_seconds()
    process = subprocess.Popen(
        command(system, benchmark, args),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(system),
    )
    with _Session(process.pid) as own:
        try:
            out, err = process.communicate(timeout=args.timeout)
        except subprocess.TimeoutExpired:
            return Turn(benchmark.name, system, number, error=f"not done after {args.timeout} s")
        finally:  # Ctrl-C too: no JVM may go on working beside the next turn
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    mine = max(own.cpu_seconds, _reaped_seconds() - reaped)
    others = max(0.0, _busy_seconds() - busy - mine) / (time.monotonic() - start)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    detail: dict[str, object] = json.loads(lines[-1]) if lines else {}
    if process.returncode or "runs" not in detail:
        error = detail.get("error") or f"exit {process.returncode}: {(err or out).strip()[-600:]}"
        return Turn(benchmark.name, system, number, error=str(error))
    turn = turn_from(detail, benchmark.name, system, number)
    return replace(turn, others_cores=round(others, 2), peak_mb=max(turn.peak_mb, own.peak_mb))


def turn_from(detail: dict[str, object], benchmark: str, system: str, number: int) -> Turn:
    """A turn from the JSON line of its process; raises TypeError if a field has another type."""
    runs, rows, out, rss = (detail.get(k) for k in ("runs", "input_rows", "rows_out", "rss_mb"))
    if not (isinstance(runs, list) and isinstance(rows, int)):
        raise TypeError(f"{system}: runs and input_rows are missing in {detail}")
    return Turn(
        benchmark=benchmark,
        system=system,
        round=number,
        runs=tuple(float(x) for x in runs),
        input_rows=rows,
        rows_out=out if isinstance(out, int) else None,
        peak_mb=rss if isinstance(rss, int) else 0,
        detail=detail,
    )


def _busy_seconds() -> float:
    """CPU seconds that the whole machine has worked since it started."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _reaped_seconds() -> float:
    """CPU seconds of the ended child processes: exact where the session's looks miss a short process."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Session:
    """CPU seconds and peak memory of all processes of one session together, looked at twice a second."""

    def __init__(self, session: int) -> None:
        self.peak_mb = 0
        self._session = session
        self._ticks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def cpu_seconds(self) -> float:
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> _Session:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            memory_kb = 0
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile
                    fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
                    if int(fields[3]) == self._session:
                        self._ticks[process.name] = int(fields[11]) + int(fields[12])
                        memory_kb += _proportional_kb(process)
            self.peak_mb = max(self.peak_mb, memory_kb // 1024)


def _proportional_kb(process: Path) -> int:
    """Memory of a process in KiB, what it shares with others (forked workers) counted as its part."""
    lines = (process / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def machine() -> str:
    """One line on where and with what the figures were taken."""
    cpu = next(
        (
            x.split(":")[1].strip()
            for x in Path("/proc/cpuinfo").read_text().splitlines()
            if x.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "duckdb", "pyarrow", "rocksdict"))
    return (
        f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GiB, {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}, {versions}; sqlstream {commit or 'unknown'}; "
        f"{time.strftime('%Y-%m-%d')}"
    )


def read_turns(file: Path) -> list[Turn]:
    """The turns that ``--out`` wrote."""
    turns = []
    for line in file.read_text().splitlines():
        fields = json.loads(line)
        turns.append(Turn(**{**fields, "runs": tuple(fields["runs"])}))
    return turns


def report(turns: Sequence[Turn], baseline: str) -> int:
    """Print the table and what is wrong with it; the exit code."""
    print(table(rows_of(turns, baseline), baseline))
    wrong = disagreements(turns)
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if wrong else 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument(
        "benchmarks", nargs="*", choices=[[], *BENCHMARKS], metavar="BENCHMARK", help=", ".join(BENCHMARKS)
    )
    p.add_argument("--peers", type=Path, help="folder with the peers' harness")
    p.add_argument("--data", type=Path, help="folder that gen.py wrote (default: data in the harness)")
    p.add_argument("--flink-python", type=Path, help="default: venvA/bin/python in the harness")
    p.add_argument(
        "--spark-python",
        type=Path,
        default=Path(sys.executable),
        help="has pyspark and duckdb; default: this one",
    )
    p.add_argument("--events", type=int, default=10_000_000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument(
        "--repeat", type=int, default=3, help="runs in a turn; the first one is cold and does not count"
    )
    p.add_argument("--systems", default=",".join(SYSTEMS), help="default: %(default)s")
    p.add_argument(
        "--baseline", choices=SYSTEMS, default="sqlstream", help="what the others' time is divided by"
    )
    p.add_argument("--parallelism", type=int, default=4)
    p.add_argument("--max-rows-per-epoch", type=int, help="sqlstream: default is its own, adaptive choice")
    p.add_argument("--flink-checkpoint", default="10s", help="interval (default: %(default)s)")
    p.add_argument("--timeout", type=float, default=600, help="seconds for one turn")
    p.add_argument("--out", type=Path, help="append every turn to this file as one JSON line")
    p.add_argument("--report", type=Path, help="measure nothing: print the table of a file that --out wrote")
    args = p.parse_args(argv)
    if args.report:
        return args
    if not args.peers or not args.benchmarks:
        p.error("--peers and at least one benchmark are needed")
    if args.repeat < 2:
        p.error("--repeat must be at least 2: the first run is cold and does not count")
    args.systems = args.systems.split(",")
    if unknown := set(args.systems) - set(SYSTEMS):
        p.error(f"no such system: {', '.join(sorted(unknown))} (there are {', '.join(SYSTEMS)})")
    args.peers = args.peers.resolve()
    args.data = (args.data or args.peers / "data").resolve()
    # Not resolved: a virtual environment's python is a link, and its target is not in the environment.
    args.flink_python = (args.flink_python or args.peers / "venvA" / "bin" / "python").absolute()
    if not (args.data / str(args.events) / "meta.json").exists():
        p.error(f"no data for {args.events} events in {args.data}: run gen.py of the harness first")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_arguments(argv)
    if args.report:
        return report(read_turns(args.report), args.baseline)
    print(machine(), flush=True)
    turns = []
    for name in args.benchmarks:
        for number in range(1, args.rounds + 1):
            for system in args.systems:
                turn = take_turn(system, BENCHMARKS[name], number, args)
                turns.append(turn)
                if args.out:
                    with args.out.open("a") as f:
                        f.write(json.dumps(asdict(turn)) + "\n")
                runs = " ".join(f"{s:.2f}" for s in turn.runs)
                print(f"{name} round {number} {system}: {turn.error or runs}", file=sys.stderr, flush=True)
    print()
    return report(turns, args.baseline)


if __name__ == "__main__":
    sys.exit(main())
