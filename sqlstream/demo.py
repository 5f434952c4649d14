"""`make demo`: a real pipeline over real data, in front of the reader's eyes."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from pathlib import Path

from sqlstream.cli.main import run_cli

REPOSITORY = Path(__file__).resolve().parent.parent
PIPELINE = "pipelines/flights/departures.sql"
_SHOWN = 8


def main() -> int:
    """Run the flights pipeline, show the top of its results, check them; returns the exit code.

    Works on a copy in a temporary folder, so that every demo starts from nothing and leaves nothing.
    """
    source = REPOSITORY / PIPELINE
    if not source.is_file():
        sys.stderr.write(f"{source} is not there: the demo runs in a clone of the repository\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="sqlstream-demo-") as temporary:
        folder = Path(temporary)
        shutil.copytree(
            source.parent,
            folder / "pipelines" / "flights",
            ignore=shutil.ignore_patterns(".sqlstream", "out"),
        )
        pipeline = str(folder / PIPELINE)
        # So few rows would be done in this process before Spark is up (docs/adr/0019-small-epochs-in-the-driver.md).
        with (folder / PIPELINE).open("a", encoding="utf-8") as file:
            file.write("\nSET 'execution.single-task-rows' = '0';\n")
        _print(f"$ sqlstream run {PIPELINE}")
        _print(
            "  27,004 flights from New York in January 2013, in the order in which they landed; 521 were cancelled,"
        )
        _print(
            "  have no event time, and are kept as dead letters of each table that would have counted them;\n"
            "  with SET 'execution.single-task-rows' = '0', so that all epochs run on Spark, small as they are\n"
        )
        code = run_cli(["run", pipeline, "--max-rows-per-epoch", "10000"])
        if code:
            return code
        _print(
            "\n$ sqlstream run … --drain   (it goes on where it stopped; no more flights come: the last windows close)"
        )
        code = run_cli(["run", pipeline, "--drain"])
        if code:
            return code
        _show(folder / "pipelines/flights/out/daily", "daily: each airport's day (TUMBLE)")
        _show(folder / "pipelines/flights/out/rush", "rush: busy three hours, every hour (HOP)")
    _print(f"\n$ sqlstream golden check {PIPELINE}")
    _print("  the same pipeline against the rows that DuckDB computes from the same SQL as a batch\n")
    code = run_cli(["golden", "check", str(source)])
    if not code:
        _print(
            f"\nThe pipeline is {PIPELINE}: read it, change it, run it.\n"
            f"Next: {Path(sys.executable).parent / 'sqlstream'} --help, and docs/getting-started.md"
        )
    return code


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _show(folder: Path, title: str) -> None:
    """The first rows of a CSV sink, in the order of its columns."""
    rows: list[list[str]] = []
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="", encoding="utf-8") as lines:
            rows += list(csv.reader(lines))
    header = ["window_start", "origin", "departures", "late", "average_delay", "longest_delay"]
    if rows and len(rows[0]) == len(header) + 1:
        header.insert(1, "window_end")
    rows = sorted(row for row in rows if row != header)
    widths = [max(map(len, column)) for column in zip(header, *rows[:_SHOWN], strict=True)]
    _print(f"\n{title}")
    for row in (header, *rows[:_SHOWN]):
        cells = [
            cell.ljust(w) if i < len(row) - 4 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        _print(f"  {'  '.join(cells).rstrip()}")
    _print(f"  … {len(rows):,} rows")


if __name__ == "__main__":
    sys.exit(main())
