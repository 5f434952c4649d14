"""Files are joined: one begins with the savepoints of several, and goes on as if it had always been there (row 36)."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.consent import ConsentNeededError
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.edits.savepoints.merging import put_together
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.query_generator import queries, rows
from tests.properties.referee import assert_same
from tests.properties.updating import TABLE as TYPED
from tests.properties.updating import Collected, collecting, fetched, plan
from tests.runtime.support import Crash, crash_at, manifests

TABLE = (
    "CREATE TABLE {t} (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) "
    "WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');\n"
)
SINK = "CREATE TABLE {name} WITH ('connector' = 'blackhole') AS {query};\n"
COUNTS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {t} GROUP BY k"
HIGHEST = "SELECT v % 2 AS p, MAX(k) AS m, COUNT(DISTINCT v) AS d FROM {t} GROUP BY v % 2"
BEST = "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM {t}) AS x WHERE r <= 2"
WINDOWS = (
    "SELECT window_end, k, COUNT(*) AS n, MAX(v) AS m FROM TABLE(TUMBLE(TABLE {t}, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end, k"
)
HOPS = (
    "SELECT window_end, SUM(v) AS n FROM TABLE(HOP(TABLE {t}, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) "
    "GROUP BY window_start, window_end"
)


@dataclass
class Files:
    """Pipelines in a folder, each with a state directory of its name, and the data that they read."""

    folder: Path
    collected: Collected

    def add(self, path: str, file: str, first: int, last: int) -> None:
        rows = [
            {"k": n % 3, "v": n * 7 % 11, "ts": f"2026-01-01 00:{n // 60:02d}:{n % 60:02d}.000"}
            for n in range(first, last)
        ]
        (self.folder / path).mkdir(exist_ok=True)
        (self.folder / path / f"{file}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def planned(
        self,
        name: str,
        tables: Mapping[str, str],
        sinks: Mapping[str, str],
        before: str = "",
        delay: str = "5",
    ) -> Planned:
        """`tables`: their names and the folders that they read; `delay`: that of their watermarks, in seconds."""
        text = before + "".join(TABLE.format(t=t, path=path, delay=delay) for t, path in tables.items())
        text += "".join(SINK.format(name=n, query=query) for n, query in sinks.items())
        (self.folder / f"{name}.sql").write_text(text)
        return plan_file(self.folder / f"{name}.sql")

    def run(self, name: str, planned: Planned, **options: Any) -> Counter[str]:
        """Run it on its state directory; the rows that were read."""
        read: Counter[str] = Counter()
        run_here(
            planned, self.folder, state=name, on_epoch=lambda report: read.update(report.rows_read), **options
        )
        return +read

    @contextmanager
    def joined(self, planned: Planned, *names: str) -> Iterator[Origin]:
        """What the savepoints of these pipelines are together; they are made now, if there are none."""
        origins = []
        for name in names:
            savepoints = Savepoints(store := CheckpointStore(self.folder / name, sync=False))
            made = savepoints.find(name) if name in savepoints.names() else savepoints.create(name)
            origins.append(Origin(store, made))
        scratch = self.folder / f"scratch {len(list(self.folder.glob('scratch*')))}"

        def source_of(spec: Any, store: CheckpointStore, folder: str) -> Any:
            return REGISTERED.source(spec, ConnectorContext(store, str(self.folder), folder=folder))

        yield put_together(origins, CheckpointStore(scratch, sync=False), source_of)

    def check(self, planned: Planned) -> None:
        """What the sinks have been given is what DuckDB says of all the files."""
        files = {
            source.name: sorted(map(str, (self.folder / source.options["path"]).glob("*.json")))
            for source in planned.physical.sources
        }
        script = to_duckdb(planned, lambda source: files[source.name])
        with empty_duckdb() as con:
            for _, view in script.sources:
                con.execute(view)
            for name, query in script.sinks:
                assert_same(self.collected.folded(name), fetched(con, query))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    with collecting() as collected:
        yield Files(tmp_path, collected)


def verdicts(folder: Path) -> Counter[str]:
    """What became of the states, by the manifest of the epoch that carried it out; nothing if all are as they were."""
    return Counter(edit["verdict"] for m in manifests(folder).values() for edit in m["edits"])


def test_two_files_that_share_a_source(files: Files) -> None:
    files.add("in", "0", 0, 50)
    one = files.planned("one", {"t": "in"}, {"counts": COUNTS.format(t="t")})
    two = files.planned("two", {"u": "in"}, {"highest": HIGHEST.format(t="u"), "best": BEST.format(t="u")})
    files.run("one", one, rows_per_epoch=7)
    files.run("two", two, rows_per_epoch=20, parallelism=3)
    files.collected.tables.clear()
    sinks = {"counts": COUNTS, "highest": HIGHEST, "best": BEST}
    both = files.planned("both", {"t": "in"}, {name: query.format(t="t") for name, query in sinks.items()})
    with files.joined(both, "one", "two") as origin:
        assert files.run("both", both, origin=origin) == {}  # nothing is read again
    files.check(both)
    assert verdicts(files.folder / "both") == {}
    files.add("in", "1", 50, 90)
    assert files.run("both", both, rows_per_epoch=7) == {"t": 40}
    files.check(both)


def test_two_files_of_other_sources_with_one_name(files: Files) -> None:
    files.add("in", "0", 0, 50)
    files.add("other", "0", 10, 30)
    files.run(
        "one",
        files.planned("one", {"t": "in"}, {"counts": COUNTS.format(t="t")}),
        rows_per_epoch=7,
        max_epochs=3,
    )
    files.run(
        "two",
        files.planned("two", {"t": "other"}, {"highest": HIGHEST.format(t="t")}),
        rows_per_epoch=7,
        max_epochs=1,
    )
    files.collected.tables.clear()
    sinks = {"counts": COUNTS.format(t="a"), "highest": HIGHEST.format(t="t")}
    both = files.planned("both", {"t": "other", "a": "in"}, sinks)
    with files.joined(both, "one", "two") as origin:
        assert files.run("both", both, origin=origin, rows_per_epoch=9) == {"a": 29, "t": 13}
    files.check(both)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("behind", "order"), [("one", ("one", "two")), ("two", ("one", "two")), ("two", ("two", "one"))]
)
def test_what_is_behind_is_read_again(behind: str, order: tuple[str, str], files: Files) -> None:
    files.add("in", "0", 0, 30)
    files.add("in", "1", 30, 50)
    ends = {"one": 5, "two": 5, behind: 2}
    sinks = {"counts": COUNTS.format(t="t"), "highest": HIGHEST.format(t="t")}
    for name, sink in (("one", "counts"), ("two", "highest")):
        alone = files.planned(name, {"t": "in"}, {sink: sinks[sink]})
        files.run(name, alone, rows_per_epoch=7, max_epochs=ends[name])
    files.collected.tables.clear()
    both = files.planned("both", {"t": "in"}, sinks)
    with files.joined(both, *order) as origin:
        [note] = origin.notes
        assert note.startswith(
            f"`t` was read up to another place in `{files.folder}/{behind}@{behind}` than in "
        )
        assert files.run("both", both, origin=origin, rows_per_epoch=7, max_epochs=1) == {}
    # COUNT(DISTINCT) has a state of its own.
    again, kept = (1, 2) if behind == "one" else (2, 1)
    assert verdicts(files.folder / "both") == {"BACKFILL": again, "KEEP": kept}
    assert files.run("both", both, rows_per_epoch=7) == {"t": 15}
    files.check(both)


def test_a_view_is_moved_from_one_file_to_another(files: Files) -> None:
    files.add("in", "0", 0, 50)
    queries = {
        name: text.format(t="t") for name, text in (("counts", COUNTS), ("highest", HIGHEST), ("best", BEST))
    }
    counts, highest, best = ({name: query} for name, query in queries.items())
    files.run("one", files.planned("one", {"t": "in"}, counts | best), rows_per_epoch=7)
    files.run("two", files.planned("two", {"t": "in"}, highest), rows_per_epoch=20)
    moved = files.planned("two'", {"t": "in"}, highest | best)
    with files.joined(moved, "two", "one") as origin:
        del files.collected.tables["highest"], files.collected.tables["best"]
        assert files.run("two'", moved, origin=origin) == {}
    left = files.planned("one'", {"t": "in"}, counts)
    files.add("in", "1", 50, 60)
    assert files.run("one", left) == {"t": 10}
    assert files.run("two'", moved) == {"t": 10}
    files.check(left)
    files.check(moved)


@settings(
    max_examples=examples(2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(queries(), queries(), rows(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 9))
def test_random_queries(
    one: str, two: str, data: list[dict[str, Any]], first: int, second: int, rows_per_epoch: int
) -> None:
    data = [{"k": None, "v": None, "s": None, "b": True}, *data]
    with tempfile.TemporaryDirectory() as name, collecting() as collected:
        files = Files(Path(name), collected)
        plan(files.folder, one, data)  # writes the rows
        sinks = {"a": one, "b": two}
        text = TYPED + "".join(SINK.format(name=n, query=query) for n, query in sinks.items())
        (files.folder / "both.sql").write_text(text)
        both = plan_file(files.folder / "both.sql")
        assume(not any(missing_answers(both.physical, sink.name) for sink in both.physical.sinks))
        for name_, query, epochs in (("one", one, first), ("two", two, second)):
            (files.folder / "alone.sql").write_text(TYPED + SINK.format(name="x", query=query))
            alone = plan_file(files.folder / "alone.sql")
            files.run(name_, alone, rows_per_epoch=rows_per_epoch, max_epochs=epochs)
        with files.joined(both, "one", "two") as origin:
            files.run("both", both, origin=origin, rows_per_epoch=rows_per_epoch, max_epochs=1)
            files.run("both", both, origin=origin, rows_per_epoch=rows_per_epoch, parallelism=3)
        files.check(both)


def test_windows_that_stand_alike_go_on(files: Files) -> None:
    files.add("in", "0", 0, 50)
    files.add("in", "1", 50, 100)
    sinks = {"windows": WINDOWS, "hops": HOPS, "counts": COUNTS}
    one = files.planned("one", {"t": "in"}, {"windows": WINDOWS.format(t="t")})
    two = files.planned("two", {"u": "in"}, {"hops": HOPS.format(t="u"), "counts": COUNTS.format(t="u")})
    for name, planned in (("one", one), ("two", two)):
        files.run(name, planned, rows_per_epoch=9, max_epochs=4)
    del files.collected.tables["counts"]
    both = files.planned("both", {"a": "in"}, {name: query.format(t="a") for name, query in sinks.items()})
    with files.joined(both, "one", "two") as origin:
        assert origin.notes == ()
        assert files.run("both", both, origin=origin, rows_per_epoch=9, parallelism=3) == {"a": 64}
    assert verdicts(files.folder / "both") == {}
    files.check(both)  # a window that one of them has given is not given again


def test_windows_of_input_that_has_ended_go_on(files: Files) -> None:
    files.add("in", "0", 0, 55)
    one = files.planned("one", {"t": "in"}, {"windows": WINDOWS.format(t="t")})
    two = files.planned("two", {"t": "in"}, {"hops": HOPS.format(t="t"), "counts": COUNTS.format(t="t")})
    files.run("one", one, rows_per_epoch=9)
    files.run("two", two, rows_per_epoch=30)
    del files.collected.tables["counts"]
    sinks = {"windows": WINDOWS, "hops": HOPS, "counts": COUNTS}
    both = files.planned("both", {"t": "in"}, {name: query.format(t="t") for name, query in sinks.items()})
    with files.joined(both, "two", "one") as origin:
        files.run("both", both, origin=origin)
    assert verdicts(files.folder / "both") == {}
    files.check(both)
    # Hops that reach to 01:20 were given; what is before that is late for all windows, as it would be in one pipeline.
    late = max(m["sources"][0]["resume"] for m in manifests(files.folder / "both").values())
    assert late == max(m["sources"][0]["resume"] for m in manifests(files.folder / "two").values())


def test_windows_of_another_time_are_read_again_by_consent(files: Files) -> None:
    files.add("in", "0", 0, 50)
    files.add("in", "1", 50, 100)
    one = files.planned("one", {"t": "in"}, {"windows": WINDOWS.format(t="t")})
    hops = {"hops": HOPS.format(t="t"), "counts": COUNTS.format(t="t")}
    two = files.planned("two", {"t": "in"}, hops, delay="9")
    files.run("one", one, rows_per_epoch=9, max_epochs=4)
    files.run("two", two, rows_per_epoch=12, max_epochs=3)
    files.collected.tables.clear()
    sinks = {"windows": WINDOWS, "hops": HOPS, "counts": COUNTS}
    both = files.planned("both", {"t": "in"}, {name: query.format(t="t") for name, query in sinks.items()})
    with files.joined(both, "one", "two") as origin:
        assert ["`t` was closed up to another time in" in note for note in origin.notes] == [True]
        with pytest.raises(ConsentNeededError) as wanted:
            files.run("both", both, origin=origin)
        assert [consent.accept for consent in wanted.value.consents] == ["fresh:windows", "fresh:hops"]
        assert not (files.folder / "both" / "epochs").exists()
        files.run("both", both, origin=origin, rewrite=["windows", "hops"])
    files.check(both)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at", ["planned", "backfilled", "adapted", "prepared"])
def test_killed_in_the_middle(at: str, files: Files) -> None:
    files.add("in", "0", 0, 50)
    sinks = {"counts": COUNTS.format(t="t"), "highest": HIGHEST.format(t="t")}
    files.run(
        "one", files.planned("one", {"t": "in"}, {"counts": sinks["counts"]}), rows_per_epoch=9, max_epochs=3
    )
    files.run(
        "two",
        files.planned("two", {"t": "in"}, {"highest": sinks["highest"]}),
        rows_per_epoch=9,
        max_epochs=4,
    )
    files.collected.tables.clear()
    both = files.planned("both", {"t": "in"}, sinks)
    # The savepoints are at epochs 3 and 4; 5 begins the new directory, and 6 gives the sinks their answers.
    number = 5 if at == "backfilled" else 6
    with files.joined(both, "one", "two") as origin, pytest.raises(Crash):
        files.run("both", both, origin=origin, faults=crash_at(at, number))
    with files.joined(both, "one", "two") as origin:
        assert files.run("both", both, origin=origin, rows_per_epoch=9) == {"t": 14}
    files.check(both)
    files.run("one", files.planned("one", {"t": "in"}, {"counts": sinks["counts"]}))  # goes on by itself


def test_files_that_were_read_in_another_order_are_not_the_same(files: Files) -> None:
    sinks = {"counts": COUNTS.format(t="t"), "highest": HIGHEST.format(t="t")}
    one, two = (
        files.planned(name, {"t": "in"}, {sink: sinks[sink]})
        for name, sink in (("one", "counts"), ("two", "highest"))
    )
    files.add("in", "1", 20, 40)
    files.run("one", one)
    files.add("in", "0", 0, 20)
    files.run("one", one)
    files.run("two", two)
    files.collected.tables.clear()
    both = files.planned("both", {"t": "in"}, sinks)
    with files.joined(both, "one", "two") as origin:
        assert len(origin.notes) == 1
        files.run("both", both, origin=origin)
    files.check(both)
    assert verdicts(files.folder / "both") == {"KEEP": 1, "BACKFILL": 2}


def test_rows_that_are_generated_are_the_same_by_their_numbers(files: Files) -> None:
    table = (
        "CREATE TABLE g (k INT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '30', "
        "'fields.k.min' = '0', 'fields.k.max' = '3', 'fields.v.kind' = 'sequence', "
        "'fields.v.start' = '1', 'fields.v.end' = '30');\n"
    )
    counts, highest = COUNTS.format(t="g"), HIGHEST.format(t="g")
    one = files.planned("one", {}, {"counts": counts}, table)
    two = files.planned("two", {}, {"highest": highest}, table)
    files.run("one", one, rows_per_epoch=6, max_epochs=3)
    files.run("two", two, rows_per_epoch=9, max_epochs=2)
    files.collected.tables.clear()
    both = files.planned("both", {}, {"counts": counts, "highest": highest}, table)
    with files.joined(both, "one", "two") as origin:
        assert files.run("both", both, origin=origin) == {"g": 12}
    assert verdicts(files.folder / "both") == {}
    whole = files.planned("whole", {}, {"w_counts": counts, "w_highest": highest}, table)
    files.run("whole", whole)
    for name in ("counts", "highest"):
        assert_same(files.collected.folded(name), files.collected.folded(f"w_{name}"))


def test_other_key_groups_are_refused(files: Files) -> None:
    files.add("in", "0", 0, 9)
    one = files.planned(
        "one", {"t": "in"}, {"counts": COUNTS.format(t="t")}, "SET 'pipeline.max-parallelism' = '64';\n"
    )
    two = files.planned("two", {"t": "in"}, {"highest": HIGHEST.format(t="t")})
    files.run("one", one)
    files.run("two", two)
    with pytest.raises(DiagnosticError) as refused, files.joined(two, "one", "two"):
        pass
    [reported] = refused.value.diagnostics
    assert (reported.code, reported.notes) == (
        "SAV008",
        (
            f"max-parallelism is 64 in `{files.folder}/one@one`",
            f"max-parallelism is 128 in `{files.folder}/two@two`",
        ),
    )


def test_one_state_that_both_have_is_taken_once(files: Files) -> None:
    files.add("in", "0", 0, 20)
    for name in ("one", "two"):
        files.run(name, files.planned(name, {"t": "in"}, {"counts": COUNTS.format(t="t")}))
    files.collected.tables.clear()
    both = files.planned("both", {"x": "in"}, {"counts": COUNTS.format(t="x"), "again": COUNTS.format(t="x")})
    with files.joined(both, "one", "two") as origin:
        assert files.run("both", both, origin=origin) == {}
    files.check(both)
