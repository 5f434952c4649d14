"""What both table sinks must do: tests that `test_duckdb_sink` and `test_postgres_sink` run on their databases."""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.connectors.exactly_once.staged import StagedEpoch, StagingWriter, staging_folder
from sqlstream.connectors.exactly_once.target import TableEdits, Target
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.runtime.tasks.task_program import Connectors
from sqlstream.storage.journal import Journal
from sqlstream_operators.errors import DataError, MemoryExhaustedError, TargetError
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, Column, PhysicalPlan, SinkOutput, SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.state import staged_rows
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import BATCH_ROWS, FOLDER, stage
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.identity.form import form
from sqlstream_planner.identity.sink import Holds, SinkIdentity
from tests.connectors.sink_job import SinkJob
from tests.connectors.staged_parts import Delta, Row, come, go
from tests.examples import examples
from tests.operators.pipelines import window_plan
from tests.runtime.support import (
    TUMBLE,
    Crash,
    RowReader,
    World,
    crash_at,
    manifests,
    micros,
    rows_of,
    tumbling,
)

_numbers = itertools.count()

SIMPLE = {"k": "BIGINT", "v": "VARCHAR"}


def _held(connector: str, key: tuple[str, ...]) -> str:
    """What a sink of the tests' plan holds, wherever its table is."""
    query = form("query", form("rows"), form("conditions"), form("columns"))
    return SinkIdentity({"connector": connector}, (), False, key, (query,), None, Holds.ANSWER, False).text


class Backend(Protocol):
    """A database to write to, and another client of it."""

    @property
    def connector(self) -> str: ...

    @property
    def options(self) -> Mapping[str, str]: ...

    @property
    def folder(self) -> Path: ...

    def rows(self, sql: str) -> list[Row]: ...


@dataclass(kw_only=True)
class Job(SinkJob):
    """A job whose sink is a table of a database."""

    backend: Backend

    def rows(self) -> list[Row]:
        names = ", ".join(f'"{column.name}"' for column in self.spec.schema)
        numbers = ", ".join(str(i + 1) for i in range(len(self.spec.schema)))
        return self.backend.rows(f'SELECT {names} FROM "{self.spec.name}" ORDER BY {numbers}')

    def recorded(self) -> list[Row]:
        return self.backend.rows("SELECT table_name, sink, epoch FROM sqlstream_epochs ORDER BY 1")


class _Watched:
    """A target that tells of each step before and after it is done."""

    def __init__(self, target: Target | TableEdits, tell: Callable[[str, bool], None]) -> None:
        self._target, self._tell = target, tell

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name in ("location", "wording", "owns_all_rows", "release", "close"):
            return found
        if name == "edits":
            return None if found is None else _Watched(found, self._tell)

        def step(*arguments: Any, **options: Any) -> Any:
            self._tell(name, False)
            result = found(*arguments, **options)
            self._tell(name, True)
            return result

        return step


class TableWorld(World):
    """Runs of a window count into the table `target`, whose sink is the registry's.

    All rows are staged in files. `broken` is called with each step that the sink takes at its target: its name, and
    whether it has been done; what it raises ends the run there.
    """

    broken: Callable[[str, bool], None] | None = None

    @classmethod
    def over(cls, backend: Backend, key: tuple[str, ...]) -> TableWorld:
        rows = rows_of(*((n * 4, "ab"[n % 2]) for n in range(10)))
        return cls(backend.folder, rows, program=cls.program_to(backend, backend.options, key))

    @staticmethod
    def program_to(backend: Backend, options: Mapping[str, str], key: tuple[str, ...] = ()) -> PhysicalPlan:
        plan = window_plan(TUMBLE)
        (shape,) = plan.sinks
        sink = replace(
            shape,
            name="target",
            connector=backend.connector,
            options=options,
            primary_key=key,
            identity=_held(backend.connector, key),
        )
        stages = tuple(
            replace(
                stage,
                outputs=tuple(
                    replace(output, sink="target") if isinstance(output, SinkOutput) else output
                    for output in stage.outputs
                ),
            )
            for stage in plan.stages
        )
        return replace(plan, sinks=(sink,), stages=stages)

    def check(self, backend: Backend) -> None:
        """The table holds the windows of all rows, and says which epoch was the last."""
        found = backend.rows("SELECT k, window_start, window_end, c FROM target")
        counts = Counter((k, micros(str(start)), micros(str(end)), count) for k, start, end, count in found)
        assert counts == tumbling(self.rows)
        assert backend.rows("SELECT epoch FROM sqlstream_epochs") == [(max(manifests(self.state)),)]

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Any:
        made = REGISTERED.sink(spec, context)
        if self.broken is not None:
            assert isinstance(made, ExactlyOnceSink)
            made._target = cast(Target, _Watched(made._target, self.broken))
        return made

    @property
    def staged(self) -> set[str]:
        return {name for name in self.files() if name.startswith(FOLDER)}

    def run(self, **options: Any) -> RunResult:
        connectors = Connectors(
            lambda spec, base: RowReader(self.rows),
            lambda spec, base: RowReader(self.rows),
            lambda spec, context: StagingWriter(spec, context, inline_bytes=0),
        )
        return super().run(runner=InProcessRunner(2, connectors), base_dir=self.folder, **options)


small = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.sampled_from([None, "", "a"]))
deltas = st.lists(st.lists(st.tuples(small, st.integers(-3, 3).filter(bool)), max_size=8), max_size=5)
PROPERTY = settings(
    max_examples=examples(3),
    # One test is run on two databases.
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,
    ],
    deadline=None,
)


class TableSinkContract:
    """The tests; a subclass has a fixture `backend`."""

    def job(
        self,
        backend: Backend,
        schema: Mapping[str, str] = SIMPLE,
        *,
        key: Sequence[str] = (),
        changelog: str = "retract",
        name: str = "target",
        state: str = "state",
        options: Mapping[str, str] | None = None,
    ) -> Job:
        columns = tuple(Column(column, parse_type(type_)) for column, type_ in schema.items())
        spec = SinkSpec(
            name,
            backend.connector,
            {**backend.options, **(options or {})},
            columns,
            tuple(key),
            changelog=changelog,
        )
        return Job(backend.folder, spec, state, backend=backend)

    # ------------------------------------------------------------------------------------ what is written

    @pytest.mark.parametrize("moved", ["epoch = 7", "epoch = 1", "job = 'another'", None])
    def test_a_record_that_was_moved_between_two_epochs_stops_the_next(
        self, backend: Backend, moved: str | None
    ) -> None:
        """Another driver has been at the table: this one's epoch is not put on top of what it does not know."""
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "one")))
        job.epoch(come((2, "two")))
        job.sink.close()  # between two epochs it has no transaction; DuckDB's file is free for others
        change = "DELETE FROM sqlstream_epochs" if moved is None else f"UPDATE sqlstream_epochs SET {moved}"
        backend.rows(f"{change} RETURNING epoch")
        with pytest.raises((TargetError, DiagnosticError)):
            job.prepare(come((3, "three")))
        job.sink.close()
        assert job.rows() == [(1, "one"), (2, "two")]

    def test_rows_with_a_key_come_change_and_go(self, backend: Backend) -> None:
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "one"), (2, "two"), (3, None)))
        assert job.rows() == [(1, "one"), (2, "two"), (3, None)]
        job.epoch(go((1, "one")), [*go((3, None)), *come((3, "three"))], come((4, "four")))
        assert job.rows() == [(2, "two"), (3, "three"), (4, "four")]
        assert job.recorded() == [("target", "target", 2)]

    def test_changes_of_a_key_that_several_tasks_report_are_one(self, backend: Backend) -> None:
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "a")))
        job.epoch(come((1, "b")), go((1, "a")), come((2, "x")), go((2, "x")))
        assert job.rows() == [(1, "b")]

    def test_rows_without_a_key_are_counted(self, backend: Backend) -> None:
        job = self.job(backend)
        job.epoch([((1, "a"), 3), ((None, None), 2), ((1, None), 2)], come((1, "a")))
        assert Counter(job.rows()) == Counter({(1, "a"): 4, (None, None): 2, (1, None): 2})
        job.epoch([((1, "a"), -2), ((None, None), -1), ((1, None), -2), ((2, "ü→😀"), 1)])
        assert Counter(job.rows()) == Counter({(1, "a"): 2, (None, None): 1, (2, "ü→😀"): 1})
        job.epoch([((1, "a"), -2), ((None, None), -1), ((2, "ü→😀"), -1)])
        assert job.rows() == []

    def test_appended_rows_are_all_kept(self, backend: Backend) -> None:
        job = self.job(backend, changelog="append")
        job.epoch(come((1, "a"), (1, "a")), come((2, None)))
        job.epoch(come((1, "a")))
        assert Counter(job.rows()) == Counter({(1, "a"): 3, (2, None): 1})

    def test_appended_rows_with_a_key_replace_the_keys_row(self, backend: Backend) -> None:
        job = self.job(backend, key=["k"], changelog="append")
        job.epoch(come((1, "a"), (2, "b")))
        job.epoch(come((2, "c"), (3, "d")))
        assert job.rows() == [(1, "a"), (2, "c"), (3, "d")]

    def test_a_table_whose_columns_are_all_key(self, backend: Backend) -> None:
        job = self.job(backend, key=["k", "v"])
        job.epoch(come((1, "a"), (1, "b")))
        job.epoch(go((1, "a")), come((2, "a")))
        assert job.rows() == [(1, "b"), (2, "a")]
        appended = self.job(backend, key=["v", "k"], changelog="append", name="other")
        appended.epoch(come((1, "a")))
        appended.epoch(come((1, "a"), (2, "a")))
        assert appended.rows() == [(1, "a"), (2, "a")]

    def test_a_key_that_state_forgot_takes_its_row_over(self, backend: Backend) -> None:
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "a"), (2, "b")))
        job.spec = replace(job.spec, forgets=True)
        job.start()
        job.epoch(come((1, "c"), (3, "d")))
        assert job.rows() == [(1, "c"), (2, "b"), (3, "d")]
        job.epoch(go((1, "c")), come((1, "e")), go((2, "b")))
        assert job.rows() == [(1, "e"), (3, "d")]
        keys = self.job(backend, {"k": "BIGINT"}, key=["k"], name="keys")
        keys.spec = replace(keys.spec, forgets=True)
        keys.epoch(come((1,)))
        keys.epoch(come((1,), (2,)))
        assert keys.rows() == [(1,), (2,)]

    def test_an_epoch_without_rows_is_noted(self, backend: Backend) -> None:
        job = self.job(backend)
        job.epoch()
        job.epoch([])
        assert job.rows() == []
        assert job.recorded() == [("target", "target", 2)]

    def test_text_with_every_special_character(self, backend: Backend) -> None:
        texts = ["", "\\N", "\\.", "a\tb", "a\nb", "a\r\nb", 'q"q', "it's", "{x,y}", "%s", "NULL", "\x01\x7f"]
        texts += [" padded ", "\\", "\\\\n", "é"]
        job = self.job(backend, {"n": "BIGINT", "t": "VARCHAR", "a": "VARCHAR[]"}, key=["n"])
        rows = [(i, text, [text, None, text + text]) for i, text in enumerate(texts)]
        job.epoch(come(*rows))
        assert job.rows() == rows

    @pytest.mark.parametrize("key", [(), ("k",)])
    def test_columns_called_like_those_of_our_statements(self, backend: Backend, key: Sequence[str]) -> None:
        names = [
            "k",
            "goes",
            "comes",
            "t",
            "d",
            "g",
            "f",
            "r",
            "rows",
            "found",
            "change",
            "several",
            "hash",
            "number",
            "row",
            "copy",
        ]
        names += [f"__{name}" for name in ("goes", "change", "several", "hash", "number", "row", "copy")]
        job = self.job(backend, dict.fromkeys(names, "BIGINT"), key=key)
        one, two, three = ((n, *range(n, n + len(names) - 1)) for n in (1, 5, 9))
        job.epoch(come(one, two, two[:1] + one[1:]) if not key else come(one, two))
        job.epoch(go(one), come(three, (7, *one[1:])))
        job.epoch(go(two), come(two[:1] + three[1:]))
        rest = [] if key else [two[:1] + one[1:]]
        assert sorted(job.rows()) == sorted([three, (7, *one[1:]), two[:1] + three[1:], *rest])

    def test_names_with_every_special_character(self, backend: Backend) -> None:
        job = self.job(
            backend, {"order": "BIGINT", 'a "b" %': "VARCHAR", "é ü": "BIGINT"}, key=["order", "é ü"]
        )
        job.spec = replace(job.spec, options={**job.spec.options, "table-name": "My Table"}, name="sink é/..")
        job.epoch(come((1, "x", 1)))
        job.epoch(come((1, "y", 1)), go((1, "x", 1)), come((1, "z", 2)))
        assert sorted(backend.rows('SELECT * FROM "My Table"')) == [(1, "y", 1), (1, "z", 2)]
        assert [row[1:] for row in job.recorded()] == [("sink é/..", 2)]

    def test_a_table_in_another_schema(self, backend: Backend) -> None:
        backend.rows("CREATE SCHEMA other")
        job = self.job(backend, options={"table-name": "other.t"})
        job.epoch(come((1, "a")))
        job.epoch(go((1, "a")), come((2, "a")))
        assert backend.rows("SELECT k FROM other.t") == [(2,)]
        assert backend.rows("SELECT epoch FROM other.sqlstream_epochs") == [(2,)]

    # ---------------------------------------------------------------------------------------- exactly once

    def test_committing_again_changes_nothing(self, backend: Backend) -> None:
        job = self.job(backend)
        parts = job.prepare(come((1, "a")))
        job.commit(parts)
        job.commit_again(parts)
        job.start()
        job.commit_again(parts)
        job.sink.abort_uncommitted(1)
        assert job.rows() == [(1, "a")]
        job.epoch(come((1, "a")))
        assert job.rows() == [(1, "a"), (1, "a")]

    @pytest.mark.parametrize("key", [(), ("k",)])
    def test_a_driver_that_dies_before_the_commit(self, backend: Backend, key: tuple[str, ...]) -> None:
        job = self.job(backend, key=key)
        job.epoch(come((1, "a"), (2, "b")))
        parts = job.prepare(go((1, "a")), come((3, "c")))
        job.start()
        assert job.rows() == [(1, "a"), (2, "b")]
        job.commit(parts)  # the manifest was published: it is committed again
        job.sink.abort_uncommitted(2)
        assert job.rows() == [(2, "b"), (3, "c")]
        assert job.recorded() == [("target", "target", 2)]
        job.epoch(go((2, "b")))
        assert job.rows() == [(3, "c")]

    def test_a_driver_that_dies_before_the_manifest(self, backend: Backend) -> None:
        job = self.job(backend)
        job.prepare(come((1, "a")))
        job.start().abort_uncommitted(0)
        last = job.prepare(come((2, "b")))
        job.commit(last)
        job.prepare(come((3, "c")))
        job.start()
        job.commit_again(last)
        job.sink.abort_uncommitted(2)  # epoch 2 was begun and is replayed: what it kept may stay
        job.epoch(come((3, "d")))
        assert job.rows() == [(2, "b"), (3, "d")]

    def test_an_epoch_that_is_given_up(self, backend: Backend) -> None:
        job = self.job(backend)
        job.epoch(come((1, "a")))
        job.prepare(come((2, "b")))
        job.start().abort_uncommitted(1)
        job.last = 2  # its number is void
        job.epoch(come((3, "c")))
        assert job.rows() == [(1, "a"), (3, "c")]
        assert job.recorded() == [("target", "target", 3)]

    def test_preparing_that_fails_leaves_nothing(self, backend: Backend) -> None:
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "a")))
        with pytest.raises(DataError):
            job.prepare(come((1, "b"), (2, "b")))
        job.start().abort_uncommitted(1)
        job.epoch(come((2, "c")))
        assert job.rows() == [(1, "a"), (2, "c")]

    def test_two_sinks_in_one_database(self, backend: Backend) -> None:
        one, two = self.job(backend, key=["k"]), self.job(backend, name="second")
        for epoch in range(2):
            rows = come((epoch, "x"))
            prepared = one.prepare(rows), two.prepare(rows)
            one.commit(prepared[0])
            two.commit(prepared[1])
        assert one.rows() == two.rows() == [(0, "x"), (1, "x")]
        assert one.recorded() == [("second", "second", 2), ("target", "target", 2)]

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(
        ("point", "key"),
        [
            ("planned", ()),
            ("run", ("window_start", "k")),
            ("prepared", ()),
            ("prepared", ("window_start", "k")),
            ("published", ()),
            ("published", ("window_start", "k")),
            ("committed", ()),
            ("collected", ("window_start", "k")),
        ],
    )
    def test_runs_that_are_broken_off(self, backend: Backend, point: str, key: tuple[str, ...]) -> None:
        """The epoch loop itself, with a crash after each step of the second epoch."""
        world = TableWorld.over(backend, key)
        with pytest.raises(Crash):
            world.run(faults=crash_at(point, 2))
        world.run()
        world.check(backend)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("step", ["open", "record", "apply", "write_record", "commit"])
    def test_runs_that_are_broken_off_at_the_target(self, backend: Backend, step: str, done: bool) -> None:
        """The driver dies before and after each step of the second epoch, the first with rows, at the target."""
        world = TableWorld.over(backend, ("window_start", "k"))
        world.run(max_epochs=1)
        taken: list[str] = []

        def broken(name: str, has_been: bool) -> None:
            taken.append(name)
            reached = "apply" in taken if step == "commit" else max(manifests(world.state)) == 1
            if reached and (name, has_been) == (step, done):
                raise Crash(name)

        world.broken = broken
        with pytest.raises(Crash):
            world.run()
        world.broken = None
        world.run()
        world.check(backend)

    @pytest.mark.parametrize("key", [(), ("window_start", "k")])
    def test_staged_rows_that_can_not_be_read_to_the_end(
        self, backend: Backend, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = TableWorld.over(backend, key)
        whole = staged_rows.batches

        def some(store: CheckpointStore, rows: Iterable[staged_rows.StagedRows]) -> Iterator[pa.RecordBatch]:
            yield from itertools.islice(whole(store, rows), 1)
            raise OSError("the disk is gone")

        monkeypatch.setattr("sqlstream.connectors.exactly_once.staged.batches", some)
        with pytest.raises(DiagnosticError, match="can't be read or written: the disk is gone"):
            world.run()
        monkeypatch.undo()
        world.run()
        world.check(backend)

    def test_a_committed_epoch_whose_staged_rows_are_gone(self, backend: Backend) -> None:
        world = TableWorld.over(backend, ())
        with pytest.raises(Crash):
            world.run(faults=crash_at("published", 2))
        (lost,) = world.staged
        (world.state / lost).unlink()
        with pytest.raises(DiagnosticError, match="are gone, though a manifest names them") as caught:
            world.run()
        assert caught.value.diagnostics[0].code == "STA003"
        assert caught.value.exit_code == 4
        assert lost in caught.value.diagnostics[0].message

    def test_staged_rows_are_kept_as_long_as_their_manifest(self, backend: Backend) -> None:
        world = TableWorld.over(backend, ())
        world.run(retained_epochs=2)
        journal = Journal(CheckpointStore(world.state))
        last = manifests(world.state)
        assert len(last) == 2
        named = frozenset[str]().union(*(journal.manifest(epoch).staged_files for epoch in last))
        assert named
        assert world.staged == named

    def test_what_a_lost_epoch_staged_is_swept(self, backend: Backend) -> None:
        """An epoch is given up because the program has changed; nothing of it stays, in the store or the table."""
        world = TableWorld.over(backend, ())
        with pytest.raises(Crash):
            world.run(faults=crash_at("prepared", 2))
        (lost,) = world.staged
        world.run(shards=3, max_epochs=1)
        assert lost not in world.staged
        assert not any("/000002/" in name for name in world.staged)
        assert backend.rows("SELECT epoch FROM sqlstream_epochs") == [(3,)]
        world.run(shards=3)
        world.check(backend)

    def test_parts_in_any_order(self, backend: Backend) -> None:
        for number, order in enumerate([(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)]):
            deltas = [go((1, "a")), come((1, "b")), [*come((2, "x")), *go((1, "b"))], come((1, "c"))]
            for key in ((), ("k",)):
                name = f"t{len(key)}_{number}"
                job = self.job(backend, key=key, name=name, state=name)
                job.epoch(come((1, "a")))
                job.epoch(*(deltas[place] for place in order))
                assert job.rows() == [(1, "c"), (2, "x")], order
                job.sink.close()

    def test_few_rows_make_no_file(self, backend: Backend) -> None:
        job = self.job(backend)
        rows = pa.table({"k": range(10), "v": ["some text"] * 10, WEIGHT_COLUMN: [1] * 10})
        part = StagingWriter(job.spec, ConnectorContext(job.store, "/")).write(rows, epoch=1, task="0-0")
        job.sink.prepare(1, [part], previous=0)
        job.commit([part])
        assert [name for name in job.store.list() if name.startswith(FOLDER)] == []
        assert len(job.rows()) == 10

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("changelog", ["append", "retract"])
    @pytest.mark.parametrize("key", [(), ("k",)])
    def test_a_large_epoch_is_read_in_batches_within_one_transaction(
        self, backend: Backend, key: tuple[str, ...], changelog: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = self.job(backend, key=key, changelog=changelog)
        read, blocks, files, most = [], [], set[int](), 0
        batches, blocks_of, opened = StagedEpoch._batches, PostgresConnection.copy, CheckpointStore.open

        def batches_seen(self: StagedEpoch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for batch in batches(self, schema):
                read.append(batch.num_rows)
                yield batch

        def copy_seen(self: Any, table: str, names: Any, made: Any) -> None:
            def seen() -> Iterator[Any]:
                for block in made:
                    blocks.append(len(block))
                    yield block

            blocks_of(self, table, names, seen())

        def open_seen(self: CheckpointStore, name: str) -> pa.NativeFile:
            nonlocal most
            file = opened(self, name)
            files.add(id(file))
            weakref.finalize(file, files.discard, id(file))
            most = max(most, len(files))
            return file

        monkeypatch.setattr(StagedEpoch, "_batches", batches_seen)
        monkeypatch.setattr(PostgresConnection, "copy", copy_seen)
        monkeypatch.setattr(CheckpointStore, "open", open_seen)
        rows, parts = 300_000, []
        folder = f"{staging_folder(job.spec.name)}/000001"
        for start in range(0, rows, 100_000):
            table = pa.table({"k": range(start, start + 100_000), "v": ["some text"] * 100_000})
            if changelog == "retract":
                table = table.append_column(WEIGHT_COLUMN, pa.repeat(pa.scalar(1, pa.int64()), 100_000))
            staged = stage(job.store, folder, f"0-{start:06d}", table, file_bytes=1 << 20)
            assert len(staged.files) > 1
            parts.append(SinkPart(100_000, staged=staged))
        job.sink.prepare(1, parts, previous=0)
        assert backend.rows("SELECT count(*) FROM target") == [(0,)]
        job.commit(parts)
        assert backend.rows("SELECT count(*), count(DISTINCT k), min(v) FROM target") == [
            (rows, rows, "some text")
        ]
        assert sum(read) == rows
        assert len(read) > 6
        assert max(read) <= BATCH_ROWS
        assert most <= 2
        if backend.connector == "postgres":
            assert len(blocks) > 3
            assert max(blocks) < 6 << 20

    def test_what_does_not_fit_in_memory_goes_to_the_disk(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """DuckDB may use less than the rows' bytes to put them together; with almost nothing it says so."""
        job = self.job(backend, key=("k",))
        job.epoch()
        parts, rows = [], 200_000
        for start in range(0, rows, 50_000):
            numbers = pa.array(range(start, start + 50_000))
            texts = pc.utf8_lpad(numbers.cast(pa.string()), 800, "0")
            columns = {"k": numbers, "v": texts, WEIGHT_COLUMN: [1] * 50_000}
            staged = stage(
                job.store, f"{staging_folder('target')}/000002", f"0-{start:06d}", pa.table(columns)
            )
            parts.append(SinkPart(50_000, staged=staged))
        memory = [4]
        for place in ("duckdb_file", "duckdb_table", "spilling"):
            monkeypatch.setattr(
                f"sqlstream.connectors.database.{place}.memory_bytes", lambda: memory[0] << 20
            )
        with pytest.raises(MemoryExhaustedError, match="DuckDB may use 4 MiB"):
            job.sink.prepare(2, parts, previous=1)
        job.start()
        with pytest.raises(DiagnosticError, match="DuckDB may use 4 MiB") as caught:
            job.sink.commit(2, parts, previous=1)
        assert "epoch 2 is committed, but not in the table yet" in (caught.value.diagnostics[0].help or "")
        memory[0] = 128
        job.start()
        job.commit(parts)
        assert backend.rows("SELECT count(*), max(v) FROM target") == [(rows, f"{rows - 1:0800d}")]

    # -------------------------------------------------------------------------------------------- refusals

    def test_two_sinks_on_one_table(self, backend: Backend) -> None:
        one, two = self.job(backend), self.job(backend, name="second", options={"table-name": "target"})
        one.prepare(come((1, "a")))
        with pytest.raises(DataError, match=r"two tables .* target and second\. .*give table second another"):
            two.prepare(come((1, "a")))

    def test_another_state_directory(self, backend: Backend) -> None:
        job = self.job(backend)
        job.epoch(come((1, "a")))
        fresh = self.job(backend, state="fresh")
        with pytest.raises(
            DataError, match=r"another state directory\. .* is at epoch 1 of it\. .*drop the table"
        ):
            fresh.start().abort_uncommitted(0)
        with pytest.raises(DataError, match="another state directory"):
            fresh.prepare(come((1, "a")))
        assert job.rows() == [(1, "a")]
        fresh.sink.close()
        job.sink.close()
        backend.rows("DROP TABLE target")
        fresh.start().abort_uncommitted(0)
        fresh.epoch(come((2, "b")))
        assert fresh.rows() == [(2, "b")]
        assert fresh.recorded() == [("target", "target", 1)]
        job.start()
        with pytest.raises(DataError, match="another state directory"):
            job.commit_again([])

    def test_a_first_run_that_committed_nothing_owns_nothing(self, backend: Backend) -> None:
        job = self.job(backend)
        job.prepare(come((1, "a")))
        job.sink.close()
        fresh = self.job(backend, state="fresh")
        fresh.start().abort_uncommitted(0)
        fresh.epoch(come((2, "b")))
        assert fresh.rows() == [(2, "b")]

    def test_a_state_directory_that_was_restored(self, backend: Backend) -> None:
        job = self.job(backend)
        job.epoch(come((1, "a")))
        kept = {name: job.store.get(name) for name in job.store.list()}
        job.epoch(come((2, "b")))
        job.sink.close()
        for name in job.store.list():
            job.store.delete(name)
        for name, content in kept.items():
            job.store.put(name, content)
        with pytest.raises(TargetError, match=r"has epoch 2, but its state is at epoch 1"):
            job.start().abort_uncommitted(1)
        job.last = job.committed = 1
        with pytest.raises(TargetError, match=r"has epoch 2, but its state is at epoch 1"):
            job.prepare(come((2, "b")))
        assert job.rows() == [(1, "a"), (2, "b")]

    def test_a_table_that_is_behind(self, backend: Backend) -> None:
        job = self.job(backend)
        job.epoch(come((1, "a")))
        job.epoch(come((2, "b")))
        job.sink.close()
        backend.rows("UPDATE sqlstream_epochs SET epoch = 1")
        job.start()
        with pytest.raises(TargetError, match=r"has epoch 1, but its state is at epoch 2"):
            job.prepare(come((3, "c")))

    @pytest.mark.parametrize("what", ["DROP TABLE target", "DELETE FROM sqlstream_epochs"])
    def test_a_table_that_is_gone(self, backend: Backend, what: str) -> None:
        job = self.job(backend)
        job.epoch(come((1, "a")))
        job.sink.close()
        backend.rows(what)
        job.start()
        with pytest.raises(TargetError, match=r"is gone.* had the rows up to epoch 1"):
            job.commit_again([])
        job.start().abort_uncommitted(1)
        with pytest.raises(TargetError, match=r"is gone.* had the rows up to epoch 1"):
            job.prepare(come((2, "b")))

    def test_rows_of_others_in_the_table(self, backend: Backend) -> None:
        backend.rows("CREATE TABLE target (k BIGINT, v VARCHAR)")
        backend.rows("INSERT INTO target VALUES (0, 'x')")
        with pytest.raises(DataError, match="has rows that this pipeline did not write"):
            self.job(backend).prepare(come((1, "a")))
        job = self.job(backend, changelog="append", state="other")
        job.epoch(come((1, "a")))
        assert job.rows() == [(0, "x"), (1, "a")]

    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            ("k BIGINT", "k"),
            ("k BIGINT, v BIGINT", "v"),
            ("k BIGINT, v VARCHAR, more INTEGER NOT NULL", "more"),
            ("k BIGINT, w VARCHAR", "w"),
        ],
    )
    def test_a_table_of_another_shape(self, backend: Backend, columns: str, told: str) -> None:
        backend.rows(f"CREATE TABLE target ({columns})")
        with pytest.raises(
            TargetError, match=rf"target .* has \(.*{told}.*\)\. the pipeline writes \(k .*, v "
        ):
            self.job(backend).prepare(come((1, "a")))

    def test_a_table_that_the_user_made(self, backend: Backend) -> None:
        backend.rows(
            "CREATE TABLE target (v VARCHAR, k BIGINT PRIMARY KEY, note VARCHAR, made INTEGER NOT NULL DEFAULT 7)"
        )
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "a"), (2, "b")))
        job.epoch([((1, "a"), -1), ((1, "c"), 1)])
        assert sorted(backend.rows("SELECT k, v, note, made FROM target")) == [
            (1, "c", None, 7),
            (2, "b", None, 7),
        ]

    def test_a_table_without_the_key(self, backend: Backend) -> None:
        backend.rows("CREATE TABLE target (k BIGINT, v VARCHAR)")
        with pytest.raises(DataError, match=r"has no PRIMARY KEY \(k\), which the pipeline declares"):
            self.job(backend, key=["k"]).prepare(come((1, "a")))

    @pytest.mark.parametrize("changelog", ["retract", "append"])
    def test_two_rows_for_a_key(self, backend: Backend, changelog: str) -> None:
        job = self.job(backend, key=["k"], changelog=changelog)
        with pytest.raises(DataError, match="two rows have the PRIMARY KEY k = 7"):
            job.prepare(come((7, "a"), (8, "a")), come((7, "b")))
        with pytest.raises(DataError, match="two rows have the PRIMARY KEY k = 7"):
            job.prepare(come((7, "a")), come((7, "a")))

    def test_null_in_a_key(self, backend: Backend) -> None:
        with pytest.raises(DataError, match="NULL in k, which belongs to the PRIMARY KEY"):
            self.job(backend, key=["k"]).prepare(come((None, "a")))

    def test_a_second_row_for_a_key_in_a_later_epoch(self, backend: Backend) -> None:
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "a")))
        with pytest.raises(
            DataError, match="the row with k = 1 is inserted, but the table has a row with this key"
        ):
            job.prepare(come((1, "b")))

    @pytest.mark.parametrize("delta", [go((2, "x")), [*go((2, "x")), *come((2, "y"))]])
    def test_a_key_that_is_not_there(self, backend: Backend, delta: Delta) -> None:
        job = self.job(backend, key=["k"])
        job.epoch(come((1, "a")))
        with pytest.raises(
            DataError, match=r"the row with k = 2 is deleted or updated.*declare its PRIMARY KEY"
        ):
            job.prepare(delta)

    @pytest.mark.parametrize("delta", [go((1, "b")), [((1, None), -2)], [*go((1, "a")), *go((None, "q"))]])
    def test_a_row_that_is_not_there_so_often(self, backend: Backend, delta: Delta) -> None:
        job = self.job(backend)
        job.epoch(come((1, "a"), (1, None)))
        with pytest.raises(DataError, match=r"is deleted, but the table has fewer copies of it.*PRIMARY KEY"):
            job.prepare(delta)
        job.start().abort_uncommitted(1)
        assert Counter(job.rows()) == Counter([(1, "a"), (1, None)])

    # ------------------------------------------------------------------------------------------ properties

    @example(epochs=[[((1, "a"), 2)], [((1, "a"), -2)]], crash=1)
    @given(epochs=deltas, crash=st.integers(0, 3))
    @PROPERTY
    def test_multisets_equal_a_counter(
        self, backend: Backend, epochs: list[list[tuple[Row, int]]], crash: int
    ) -> None:
        """The driver dies after every `crash`-th step."""
        job = self._fresh(backend, ())
        model: Counter[Row] = Counter()
        for wanted in epochs:
            delta = []
            for row, weight in wanted:
                kept = max(weight, -model[row])
                model[row] += kept
                delta.append((row, kept))
            self._step(job, delta, crash)
            assert Counter(job.rows()) == +model
        job.sink.close()

    @example(results=[{0: "a"}, {}, {0: "a"}], noise=[], crash=1)
    @given(
        results=st.lists(st.dictionaries(st.integers(0, 4), st.sampled_from([None, "", "a"])), max_size=5),
        noise=st.lists(small, max_size=3),
        crash=st.integers(0, 3),
    )
    @PROPERTY
    def test_keyed_rows_equal_a_dictionary(
        self, backend: Backend, results: list[dict[int, str | None]], noise: list[Row], crash: int
    ) -> None:
        """Rows that come and go in the same epoch are not seen."""
        job = self._fresh(backend, ("a",))
        before: dict[int, str | None] = {}
        for result in results:
            old, new = set(before.items()), set(result.items())
            back_and_forth = [
                change for row in noise for change in ((row, 1), (row, -1)) if row[0] is not None
            ]
            delta = [*come(*(new - old)), *back_and_forth, *go(*(old - new))]
            self._step(job, delta, crash)
            assert Counter(job.rows()) == Counter(result.items())
            before = result
        job.sink.close()

    def _fresh(self, backend: Backend, key: Sequence[str]) -> Job:
        number = next(_numbers)
        schema = {"a": "BIGINT", "b": "VARCHAR"}
        return self.job(backend, schema, key=key, name=f"random_{number}", state=f"random_{number}")

    @staticmethod
    def _step(job: Job, delta: Delta, crash: int) -> None:
        half = len(delta) // 2
        parts = job.prepare(delta[:half], delta[half:])
        if crash and job.last % crash == 0:
            job.start()
        job.commit(parts)
        if crash and job.last % crash == 1:
            job.start()
            job.commit_again(parts)
            job.sink.abort_uncommitted(job.last)
