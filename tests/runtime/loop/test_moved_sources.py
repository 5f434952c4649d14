"""`--source-moved`: the data of a source is in another place, and the run goes on exactly where it was."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.edits.sources.moved_sources import moves
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.updating import Collected, collecting
from tests.runtime.support import Crash, crash_at

QUERY = """CREATE TABLE {name} (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {name} GROUP BY k;
"""
PARTS = [range(6), range(6, 15), range(15, 20)]


def write(folder: Path, parts: Sequence[range] = PARTS) -> None:
    folder.mkdir(parents=True)
    for number, part in enumerate(parts):
        lines = "".join(json.dumps({"k": n % 3, "v": n}) + "\n" for n in part)
        (folder / f"{number}.json").write_text(lines)


def answer(rows: int) -> Counter[tuple[Any, ...]]:
    return Counter((k, len(range(k, rows, 3)), sum(range(k, rows, 3))) for k in range(3))


def last(folder: Path, state: str = "state") -> Manifest:
    journal = Journal(CheckpointStore(folder / state, sync=False))
    return journal.manifest(journal.epochs()[1][-1])


def run(
    folder: Path,
    path: str,
    *moved: str,
    name: str = "t",
    text: str = QUERY,
    format_: str = "json",
    **options: Any,
) -> list[Diagnostic]:
    """Run the query over files of `path`, as `sqlstream run --source-moved` does; the warnings."""
    file = folder / "p.sql"
    file.write_text(text.format(path=path, name=name, format=format_))
    planned = plan_file(file)
    journal = Journal(CheckpointStore(folder / options.get("state", "state"), sync=False))
    there = journal.epochs()[1]
    origin = options.get("origin")
    manifest = journal.manifest(there[-1]) if there else origin.savepoint.manifest if origin else None
    found = moves(manifest, planned.physical.sources, moved)
    planned = plan_file(file, moved=found.known_as)
    reported: list[Diagnostic] = []
    run_here(planned, folder, moved=found, sql=planned.masked_sql, tell=reported.append, **options)
    return reported


@pytest.fixture
def begun(tmp_path: Path) -> Any:
    """A pipeline that has read 8 of 20 rows, the last of them in the middle of a file."""
    write(tmp_path / "old")
    with collecting() as collected:
        run(tmp_path, "old", rows_per_epoch=4, max_epochs=2)
        assert Counter(collected.folded("out")) == answer(8)
        yield tmp_path, collected


def to(folder: Path, new: str) -> None:
    (folder / new).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / "old", folder / new)
    shutil.rmtree(folder / "old")


@pytest.mark.parametrize("place", ["new", "far/below/new", "new/*.json", "new/[0-9].json"])
def test_a_run_goes_on_in_the_new_place(place: str, begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    to(folder, place.split("/*")[0].split("/[")[0])
    with pytest.raises(DiagnosticError) as refused:
        run(folder, place)
    assert refused.value.diagnostics[0].code == "STA011"
    assert "--source-moved t" in (refused.value.diagnostics[0].help or "")
    assert run(folder, place, "t", rows_per_epoch=4, max_epochs=1) == []
    assert Counter(collected.folded("out")) == answer(12)
    run(folder, place)  # it was said once
    assert Counter(collected.folded("out")) == answer(20)
    run(folder, place, "T")  # said again it is no mistake
    assert Counter(collected.folded("out")) == answer(20)


def test_a_place_that_is_gone_says_what_can_be_done(begun: tuple[Path, Collected]) -> None:
    folder, _ = begun
    to(folder, "new")
    with pytest.raises(DiagnosticError) as refused:
        run(folder, "old")
    [reported] = refused.value.diagnostics
    assert reported.code == "DAT004"
    assert "run with --source-moved t" in (reported.help or "")
    with pytest.raises(DiagnosticError) as refused:
        run(folder, "old", state="other")  # nothing was read there
    assert "--source-moved" not in (refused.value.diagnostics[0].help or "")


def test_new_files_of_the_new_place_are_read(begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    to(folder, "new")
    write(folder / "more", [range(20, 26)])
    shutil.move(folder / "more/0.json", folder / "new/3.json")
    run(folder, "new", "t")
    assert Counter(collected.folded("out")) == answer(26)


def test_it_is_written_down_even_if_nothing_is_new(begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    run(folder, "old")
    to(folder, "new")
    run(folder, "new", "t")
    assert last(folder).void
    run(folder, "new")
    assert Counter(collected.folded("out")) == answer(20)


def test_what_was_read_may_be_gone(begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    to(folder, "new")
    (folder / "new/0.json").unlink()
    run(folder, "new", "t")
    assert Counter(collected.folded("out")) == answer(20)


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (lambda new: (new / "1.json").unlink(), "1.json is not there"),
        (lambda new: (new / "2.json").unlink(), "2.json is not there"),
        (lambda new: (new / "0.json").rename(new / "00.json"), "0.json is there under another name"),
        (lambda new: (new / "1.json").rename(new / "a.json"), "1.json is not there"),
        (lambda new: (new / "1.json").write_text((new / "1.json").read_text() + "\n"), "had"),
        (
            lambda new: (new / "0.json").write_text((new / "0.json").read_text().replace("5", "6")),
            "has other content",
        ),
    ],
)
def test_other_data_is_refused_and_nothing_is_changed(
    harm: Any, expected: str, begun: tuple[Path, Collected]
) -> None:
    folder, collected = begun
    shutil.copytree(folder / "old", folder / "new")
    harm(folder / "new")
    before = last(folder).to_bytes()
    with pytest.raises(DiagnosticError) as refused:
        run(folder, "new", "t")
    assert (refused.value.exit_code, refused.value.diagnostics[0].code) == (4, "STA018")
    assert any(expected in note for note in refused.value.diagnostics[0].notes)
    assert last(folder).to_bytes() == before
    run(folder, "old")
    assert Counter(collected.folded("out")) == answer(20)


def test_a_place_with_none_of_the_files_is_refused(begun: tuple[Path, Collected]) -> None:
    """All that was listed was read, and may be gone: but a folder that has none of it is another one."""
    folder, collected = begun
    run(folder, "old")
    (folder / "new").mkdir()
    for _ in range(2):
        before = last(folder).to_bytes()
        with pytest.raises(DiagnosticError) as refused:
            run(folder, "new", "t")
        [reported] = refused.value.diagnostics
        assert (refused.value.exit_code, reported.code) == (4, "STA018")
        assert reported.notes == ("none of the 3 files that were listed is there",)
        assert last(folder).to_bytes() == before
        (folder / "new/9.json").write_text('{"k": 1, "v": 77}\n')
    run(folder, "old")
    assert Counter(collected.folded("out")) == answer(20)


TABLE = """CREATE TABLE {name} (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
CREATE TABLE o (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
INSERT INTO o SELECT k, COUNT(*) FROM {name} GROUP BY k;
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("n BIGINT", "m BIGINT", 3),
        ("n BIGINT", "n INT", 4),
    ],
)
def test_a_move_is_not_written_down_if_the_run_is_refused(
    old: str, new: str, code: int, tmp_path: Path
) -> None:
    write(tmp_path / "old")
    run(tmp_path, "old", text=TABLE, rows_per_epoch=4, max_epochs=2)
    to(tmp_path, "new")

    def files() -> list[str]:
        return sorted(str(p) for p in (tmp_path / "state").rglob("*") if "lock" not in p.name)

    before = files()
    for _ in range(2):
        with pytest.raises(DiagnosticError) as refused:
            run(tmp_path, "new", "t", text=TABLE.replace(old, new))
        assert refused.value.exit_code == code
        assert files() == before
    shutil.move(tmp_path / "new", tmp_path / "old")
    run(tmp_path, "old", text=TABLE)  # the former place is still the source's
    with duckdb.connect(str(tmp_path / "o.duckdb")) as con:
        found = con.execute("SELECT k, n FROM o").fetchall()
    assert Counter(found) == Counter((k, n) for k, n, _ in answer(20))


def test_the_former_place_is_other_data_then(begun: tuple[Path, Collected]) -> None:
    """Its files are those that were there once; what came in the new place is missing."""
    folder, collected = begun
    shutil.copytree(folder / "old", folder / "new")
    run(folder, "new", "t", rows_per_epoch=4, max_epochs=1)
    with pytest.raises(DiagnosticError) as refused:
        run(folder, "old")
    assert [d.code for d in refused.value.diagnostics] == ["STA011"]
    run(folder, "old", "t", rows_per_epoch=4, max_epochs=1)
    with pytest.raises(DiagnosticError):
        run(folder, "new")
    shutil.copytree(folder / "old", folder / "third")
    run(folder, "third", "t")
    assert Counter(collected.folded("out")) == answer(20)


@pytest.mark.parametrize("point", ["planned", "run", "committed"])
def test_a_crash_while_it_moves(point: str, begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    with pytest.raises(Crash):
        run(folder, "old", rows_per_epoch=4, faults=crash_at(point, 3))
    to(folder, "new")
    with pytest.raises(Crash):
        run(folder, "new", "t", rows_per_epoch=4, faults=crash_at(point, 5))
    collected_before = Counter(collected.folded("out"))
    assert sum(n for _, n, _ in collected_before) <= 20
    run(folder, "new")
    assert Counter(collected.folded("out")) == answer(20)


def test_a_table_that_was_renamed_too(begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    to(folder, "new")
    run(folder, "new", "orders", name="orders")
    run(folder, "new", name="again")
    assert Counter(collected.folded("out")) == answer(20)


def test_a_single_file(tmp_path: Path) -> None:
    write(tmp_path / "in", [range(20)])
    with collecting() as collected:
        run(tmp_path, "in/0.json", rows_per_epoch=4, max_epochs=2)
        (tmp_path / "in/0.json").rename(tmp_path / "all.json")
        run(tmp_path, "all.json", "t")
        assert Counter(collected.folded("out")) == answer(20)


def test_a_fork_in_another_place(begun: tuple[Path, Collected]) -> None:
    folder, collected = begun
    store = CheckpointStore(folder / "state", sync=False)
    origin = Origin(store, Savepoints(store).create("cut"))
    shutil.copytree(folder / "old", folder / "new")
    with collecting() as forked:
        run(folder, "new", "t", state="fork", origin=origin)
        assert Counter(forked.folded("out")) == answer(20)
        run(folder, "new", state="fork")
    run(folder, "old")
    assert Counter(collected.folded("out")) == answer(20)


MADE = """CREATE TABLE {name} (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{path}',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '100000', 'fields.v.max' = '9');
CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT COUNT(*) AS n, SUM(k) AS s FROM {name};
"""


def test_of_generated_rows_it_is_believed(tmp_path: Path) -> None:
    with collecting() as collected:
        run(tmp_path, "10", text=MADE, rows_per_epoch=4)
        with pytest.raises(DiagnosticError, match="has other data than before"):
            run(tmp_path, "20", text=MADE)
        reported = run(tmp_path, "20", "t", text=MADE)
        assert [(d.code, d.severity) for d in reported] == [("STA018", "warning")]
        assert collected.folded("out") == [(20, sum(range(1, 21)))]


def test_mistakes_of_the_command_line(begun: tuple[Path, Collected]) -> None:
    folder, _ = begun
    for moved, expected in (("tt", "no table `tt`"), ("x", "no table `x`")):
        with pytest.raises(DiagnosticError, match=expected) as wrong:
            run(folder, "new", moved)
        assert wrong.value.exit_code == 2
    with pytest.raises(DiagnosticError, match="there is no state"):
        run(folder, "old", "t", state="other")


def test_run_hands_it_on(begun: tuple[Path, Collected], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = begun
    to(folder, "new")
    (folder / "p.sql").write_text(QUERY.format(path="new", name="t", format="json"))
    seen: list[Any] = []

    def run_pipeline(request: RunRequest) -> Any:
        assert request.moved is not None
        seen.extend([request.plan.sources[0].identity, request.moved.tables])
        raise DiagnosticError(Diagnostic("STA018", "for the test"))

    monkeypatch.setattr("sqlstream.runtime.api.run_pipeline", run_pipeline)
    state = ["--state-dir", str(folder / "state")]
    assert run_cli(["run", str(folder / "p.sql"), *state, "--source-moved", "t"]) == 1
    assert run_cli(["run", str(folder / "p.sql"), *state]) == 1
    kept = last(folder).sources[0].identity
    assert seen == [kept, ("t",), kept.replace("old", "new"), ()]


def test_plan_says_what_a_run_would(
    begun: tuple[Path, Collected], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = begun
    to(folder, "new")
    (folder / "p.sql").write_text(QUERY.format(path="new", name="t", format="json"))
    arguments = ["plan", str(folder / "p.sql"), "--state-dir", str(folder / "state")]
    files = {str(p) for p in (folder / "state").rglob("*")}
    assert run_cli(arguments) == 4
    assert "--source-moved t" in capsys.readouterr().err
    assert run_cli([*arguments, "--source-moved", "t"]) == 0
    assert "all state is kept. The result is exact." in capsys.readouterr().out
    (folder / "new/2.json").unlink()
    assert run_cli([*arguments, "--source-moved", "t"]) == 4
    assert "2.json is not there" in capsys.readouterr().err
    assert {str(p) for p in (folder / "state").rglob("*")} == files
