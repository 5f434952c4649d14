"""Runs files of several tables and sinks, and compares all sinks with DuckDB after every epoch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_operators.codec.exchange import Message
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.file_generator import File
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.sources import lines_of
from tests.properties.updating import batch_of, collecting, fetched


class Judge:
    """What the sinks of a file must hold when the first rows of each table were read."""

    def __init__(self, file: File, folder: Path) -> None:
        self.file = file
        self.folder = folder
        self.inputs = {source.name: source.input_rows(folder) for source in file.sources}
        # Ties have no definition but the planner's: of a file where nothing can be shared with another sink.
        self._alone: dict[str, Planned] = {}
        for name, query in file.sinks:
            if query.ties:
                (folder / "alone.sql").write_text(file.text(only=name))
                self._alone[name] = plan_file(folder / "alone.sql")

    def answers(self, read: Mapping[str, int]) -> dict[str, Rows]:
        """Each sink's rows."""
        rows = {name: whole[: read[name]] for name, whole in self.inputs.items()}
        found: dict[str, Rows] = {}
        with empty_duckdb() as con:
            for source in self.file.sources:
                con.register(f"rows_of_{source.name}", source.table(rows[source.name]))
                con.execute(f"CREATE VIEW {source.name} AS FROM rows_of_{source.name}")
            for name, query in self.file.views:
                con.execute(f"CREATE VIEW {name} AS {query.judge}")
            for name, query in self.file.sinks:
                if name not in self._alone:
                    found[name] = fetched(con, query.judge)
        return {
            name: found[name] if name in found else self._of_ties(name, rows) for name, _ in self.file.sinks
        }

    def _of_ties(self, name: str, rows: Mapping[str, Sequence[Any]]) -> Rows:
        for source, some in rows.items():
            (self.folder / f"prefix-{source}.json").write_text(lines_of(some))
        return batch_of(to_duckdb(self._alone[name], lambda spec: [f"{self.folder}/prefix-{spec.name}.json"]))


def check_file(
    folder: Path, file: File, *, rows_per_epoch: int | None = None, parallelism: int = 2, seed: int = 0
) -> None:
    """After each epoch all sinks hold what DuckDB gives for the rows read so far; those of closed windows at the end."""
    for source in file.sources:
        source.write(folder)
    (folder / "pipeline.sql").write_text(file.text())
    planned = plan_file(folder / "pipeline.sql")
    judge = Judge(file, folder)
    read = dict.fromkeys(judge.inputs, 0)

    def shuffled(messages: list[Message]) -> list[Message]:
        random.Random(seed).shuffle(messages)
        return messages

    with collecting() as collected:

        def compare(*, end: bool = False) -> None:
            for (name, query), rows in zip(file.sinks, judge.answers(read).values(), strict=True):
                if end or not query.at_end:
                    try:
                        assert_same(collected.folded(name), rows)
                    except AssertionError as error:
                        raise AssertionError(f"{name} after {read}: {error}\n{file.text()}") from None

        def epoch(report: EpochReport) -> None:
            for name, rows in report.rows_read.items():
                read[name] += rows
            compare()

        run_here(
            planned,
            folder,
            parallelism=parallelism,
            rows_per_epoch=rows_per_epoch,
            shuffle=shuffled,
            on_epoch=epoch,
        )
        read.update({name: len(rows) for name, rows in judge.inputs.items()})
        compare(end=True)
