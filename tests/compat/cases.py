"""A case: a pipeline with its input, where it is cut, and what has to come out; one folder each in the folder of a format.

`pipeline.sql` and `input/` are what ran, `case.json` how (shards and clock of each epoch before the cut, rows an epoch, the
clocks after it), `referee.sql` what DuckDB makes of the same input, written by hand, `expected.json` its rows,
`savepoint.tar.gz` the exported savepoint at the cut, which only the release of its time has written.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.storage.savepoint_copies import export_savepoint, the_savepoint_in
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows
from tests.properties.updating import collecting

HERE = Path(__file__).parent
SAVEPOINT = "savepoint.tar.gz"
#: What is copied to where a case runs: its paths are relative.
_INPUT = ("pipeline.sql", "input")


@dataclass(frozen=True)
class Case:
    """A folder `formatN/<name>`."""

    folder: Path

    def __str__(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"

    @property
    def settings(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads((self.folder / "case.json").read_text())
        return found

    def savepoint(self, work: Path) -> CheckpointStore:
        """The exported savepoint, unpacked into a folder."""
        with tarfile.open(self.folder / SAVEPOINT) as packed:
            packed.extractall(work / "exported", filter="data")
        return CheckpointStore(work / "exported", sync=False)

    @property
    def expected(self) -> dict[str, Rows]:
        """What every sink has to have in the end, as it is kept, in the form of `plain`."""
        kept: dict[str, list[list[Any]]] = json.loads((self.folder / "expected.json").read_text())
        return {sink: [tuple(row) for row in rows] for sink, rows in kept.items()}

    def judged(self) -> dict[str, Rows]:
        """The same as DuckDB says by the referee's SQL."""
        found: dict[str, Rows] = {}
        with empty_duckdb() as con:
            con.execute(f"SET file_search_path = '{self.folder}'")
            for name, sql in self._referee():
                if name is None:
                    con.execute(sql)
                else:
                    found[name] = plain(con.sql(sql).to_arrow_table())
        return found

    def _referee(self) -> Iterator[tuple[str | None, str]]:
        name: str | None = None
        lines: list[str] = []
        for line in (self.folder / "referee.sql").read_text().splitlines():
            if line.startswith("-- "):
                name = line.removeprefix("-- ") if " " not in line.removeprefix("-- ") else None
                continue
            lines.append(line)
            if line.endswith(";"):
                yield name, "\n".join(lines)
                name, lines = None, []

    def write(self, work: Path) -> None:
        """Run up to the cut and export the savepoint, with the program as it is now; `work` is an empty folder."""
        planned = self._placed(work)
        with collecting():
            for number, epoch in enumerate(self.settings["epochs"], 1):
                clock = float(epoch.get("clock", 0))
                result = run_here(
                    planned,
                    work,
                    parallelism=epoch["shards"],
                    rows_per_epoch=self.settings["rows_per_epoch"],
                    sql=planned.masked_sql,
                    max_epochs=1,
                    wall_clock=lambda clock=clock: clock,
                )
                assert (result.epochs, result.outcome) == (1, "stopped"), number
        store = CheckpointStore(work / "state", sync=False)
        export_savepoint(
            store, Savepoints(store).create("compat"), CheckpointStore(work / "exported", sync=False)
        )
        with tarfile.open(self.folder / SAVEPOINT, "w:gz") as packed:
            for file in sorted(p for p in (work / "exported").rglob("*") if p.is_file()):
                packed.add(file, file.relative_to(work / "exported").as_posix())
        kept = dict(sorted(self.judged().items()))
        text = ",\n".join(
            f" {json.dumps(name)}: [\n"
            + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
            + "\n ]"
            for name, rows in kept.items()
        )
        (self.folder / "expected.json").write_text(f"{{\n{text}\n}}\n")

    def restored(self, work: Path, shards: int, groups: int | None = None) -> dict[str, Rows]:
        """Start from the savepoint in an empty folder and run on to the end; the rows that every sink has then."""
        planned = self._placed(work)
        if groups is not None:
            options = replace(planned.physical.options, max_parallelism=groups)
            planned = replace(planned, physical=replace(planned.physical, options=options))
        exported = self.savepoint(work)
        clock = iter(self.settings.get("then", ()))
        timed: dict[str, Any] = {"wall_clock": lambda: float(next(clock))} if "then" in self.settings else {}
        with collecting() as collected:
            run_here(
                planned,
                work,
                origin=Origin(exported, the_savepoint_in(exported)),
                parallelism=shards,
                rows_per_epoch=self.settings["rows_per_epoch"],
                sql=planned.masked_sql,
                **timed,
            )
            sinks = [sink.name for sink in planned.physical.sinks]
            return {sink: plain_rows(collected.folded(sink)) for sink in sinks}

    def _placed(self, work: Path) -> Planned:
        for name in _INPUT:
            if (self.folder / name).is_dir():
                shutil.copytree(self.folder / name, work / name)
            elif (self.folder / name).exists():
                shutil.copy(self.folder / name, work / name)
        return plan_file(work / "pipeline.sql")


def formats() -> list[int]:
    """The formats that there are savepoints of."""
    return sorted(int(folder.name.removeprefix("format")) for folder in HERE.glob("format*"))


def cases(format_: int | None = None) -> list[Case]:
    """The cases of a format, or of all."""
    chosen = formats() if format_ is None else [format_]
    return [Case(file.parent) for n in chosen for file in sorted((HERE / f"format{n}").glob("*/case.json"))]


def plain(table: pa.Table) -> Rows:
    """The rows of a table with values that JSON has: times and decimals as text."""
    columns = [table[i].to_pylist() for i in range(table.num_columns)]
    return plain_rows(list(zip(*columns, strict=True)))


def plain_rows(rows: Sequence[Sequence[Any]]) -> Rows:
    """The same of rows as Arrow gives them."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
