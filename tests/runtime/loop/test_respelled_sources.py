"""The same data in other words goes on: a path that is written in another way, more rows of a generator; what differs stays
refused.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli

FILES = """CREATE TABLE {name} (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'x.db');
INSERT INTO o SELECT k, COUNT(*) AS n FROM {name} GROUP BY k;"""
MADE = """CREATE TABLE t ({columns}) WITH ({options});
CREATE TABLE o (n BIGINT, s DOUBLE, one INT, PRIMARY KEY (one) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'x.db');
INSERT INTO o SELECT COUNT(*) AS n, SUM({value}) AS s, 1 AS one FROM t;"""


def write(file: Path, **rows: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "".join(json.dumps({"k": k, "v": n}) + "\n" for k, count in rows.items() for n in range(count))
    )
    os.utime(file, (1, 1))


def command(folder: Path, name: str, text: str, *more: str) -> int:
    (folder / "p.sql").write_text(text)
    return run_cli([name, str(folder / "p.sql"), "--state-dir", str(folder / "state"), *more])


def answer(folder: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "x.db"), read_only=True) as connection:
        found: list[tuple[Any, ...]] = connection.execute("SELECT * FROM o ORDER BY ALL").fetchall()
        return found


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A pipeline that has read all of `data/t`."""
    write(tmp_path / "data/t/1.json", a=2, b=1)
    write(tmp_path / "data/t/2.json", a=1)
    assert command(tmp_path, "run", FILES.format(name="t", path="data/t")) == 0
    assert answer(tmp_path) == [("a", 3), ("b", 1)]
    return tmp_path


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "path",
    [
        "./data/t",
        "data/t/",
        "data//t",
        "data/../data/t",
        "{here}/data/t",
        "file://{here}/data/t",
        "data/t/*.json",
        "data/t/**",
    ],
)
def test_a_path_in_other_words(path: str, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILES.format(name="t" if path.startswith(".") else "renamed", path=path.format(here=begun))
    assert command(begun, "plan", text, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert [state["verdict"] for state in made["states"]] == ["KEEP"]
    assert command(begun, "run", text) == 0
    assert answer(begun) == [("a", 3), ("b", 1)], "nothing is read twice"
    write(begun / "data/t/3.json", b=5)
    assert command(begun, "run", text) == 0
    assert answer(begun) == [("a", 3), ("b", 6)]
    # And back.
    write(begun / "data/t/4.json", c=1)
    assert command(begun, "run", FILES.format(name="t", path="data/t")) == 0
    assert answer(begun) == [("a", 3), ("b", 6), ("c", 1)]


def test_history_is_read_again_by_the_new_words(begun: Path) -> None:
    text = FILES.format(name="t", path="data/t/*.json").replace("COUNT(*) AS n", "MAX(v) AS n")
    assert command(begun, "run", text) == 0
    assert answer(begun) == [("a", 1), ("b", 0)]
    write(begun / "data/t/3.json", b=5)
    assert command(begun, "run", text) == 0
    assert answer(begun) == [("a", 1), ("b", 4)]


def _other(folder: Path) -> None:
    shutil.copytree(folder / "data/t", folder / "data/u")


def _not_matched(folder: Path) -> None:
    write(folder / "data/t/rows.txt", c=1)


def _below(folder: Path) -> None:
    write(folder / "data/t/more/5.json", c=1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("path", "done"),
    [
        ("data/u", _other),
        ("data/t/*.json", _not_matched),
        ("data/t/*.json", _below),
        ("data/t/[1].json", lambda _: None),
        ("data/t/1.json", lambda _: None),
        ("data", lambda folder: write(folder / "data/3.json", c=1)),
    ],
)
def test_other_files_are_other_data(path: str, done: Callable[[Path], None], begun: Path) -> None:
    done(begun)
    assert command(begun, "plan", FILES.format(name="t", path=path)) == 4
    assert command(begun, "run", FILES.format(name="t", path=path)) == 4
    assert command(begun, "run", FILES.format(name="t", path="data/t")) == 0, "nothing was changed"


def test_a_file_that_was_read_and_is_gone_counts(begun: Path) -> None:
    write(begun / "data/t/rows.txt", c=1)
    assert command(begun, "run", FILES.format(name="t", path="data/t")) == 0
    (begun / "data/t/rows.txt").unlink()
    assert command(begun, "plan", FILES.format(name="t", path="data/t/*.json")) == 4


def test_back_where_other_files_came_meanwhile(begun: Path) -> None:
    """The folder has a file that the pattern passed over."""
    assert command(begun, "run", FILES.format(name="t", path="data/t/*.json")) == 0
    write(begun / "data/t/rows.txt", c=1)
    assert command(begun, "run", FILES.format(name="t", path="data/t/*.json")) == 0
    assert command(begun, "plan", FILES.format(name="t", path="data/t")) == 4
    (begun / "data/t/rows.txt").unlink()
    write(begun / "data/t/3.json", c=1)
    assert command(begun, "run", FILES.format(name="t", path="data/t")) == 0
    assert answer(begun) == [("a", 3), ("b", 1), ("c", 1)]


def test_two_tables_of_one_folder_in_two_words_stay_two(begun: Path) -> None:
    both = FILES.format(name="t", path="data/t") + (
        "CREATE TABLE u (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = './data/t', 'format' = 'json');\n"
        "CREATE TABLE o2 WITH ('connector' = 'duckdb', 'path' = 'x.db') AS SELECT k, MAX(v) AS m FROM u GROUP BY k;"
    )
    assert command(begun, "run", both) == 0
    with duckdb.connect(str(begun / "x.db"), read_only=True) as connection:
        assert connection.execute("SELECT * FROM o2 ORDER BY ALL").fetchall() == [("a", 1), ("b", 0)]
    write(begun / "data/t/3.json", b=5)
    assert command(begun, "run", both) == 0
    assert answer(begun) == [("a", 3), ("b", 6)]


DATAGEN = {"connector": "datagen", "number-of-rows": "10", "fields.a.min": "0", "fields.a.max": "1000"}
SEQUENCE = {
    "connector": "datagen",
    "fields.a.kind": "sequence",
    "fields.a.start": "1",
    "fields.a.end": "10",
}
NEXMARK = {"connector": "nexmark", "events": "100"}


def made(options: Mapping[str, str], **more: str) -> str:
    """A pipeline over made-up rows; a dot in an option's name is written `__`."""
    given = {**options, **{name.replace("__", ".").replace("_", "-"): value for name, value in more.items()}}
    nexmark = options["connector"] == "nexmark"
    return MADE.format(
        columns="bid ROW<price BIGINT>" if nexmark else "a INT",
        value="bid.price" if nexmark else "a",
        options=", ".join(f"'{name}' = '{value}'" for name, value in given.items() if value),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "more"),
    [
        (DATAGEN, {"number_of_rows": "25"}),
        (SEQUENCE, {"fields__a__end": "25"}),
        (SEQUENCE, {"fields__a__end": "90", "number_of_rows": "25"}),
        (NEXMARK, {"events": "250"}),
    ],
)
def test_more_rows_of_a_generator(options: dict[str, str], more: dict[str, str], tmp_path: Path) -> None:
    begun, alone = tmp_path / "begun", tmp_path / "alone"
    begun.mkdir()
    alone.mkdir()
    assert command(begun, "run", made(options)) == 0
    assert command(begun, "plan", made(options, **more)) == 0
    assert command(begun, "run", made(options, **more)) == 0
    assert command(alone, "run", made(options, **more)) == 0
    assert answer(begun) == answer(alone)
    assert answer(begun)[0][0] in (25, 250)
    # Fewer than were read are other rows.
    assert command(begun, "plan", made(options)) == 4
    assert command(begun, "run", made(options)) == 4
    assert answer(begun) == answer(alone)


def test_an_end_that_was_not_reached_may_come_nearer(tmp_path: Path) -> None:
    assert command(tmp_path, "run", made(DATAGEN)) == 0
    assert command(tmp_path, "run", made(DATAGEN, number_of_rows="40")) == 0
    assert command(tmp_path, "run", made(DATAGEN, number_of_rows="40")) == 0
    assert command(tmp_path, "plan", made(DATAGEN, number_of_rows="39")) == 4
    assert command(tmp_path, "plan", made(DATAGEN, number_of_rows="")) == 0, "without an end"


@pytest.mark.parametrize(
    "more",
    [
        {"seed": "1"},
        {"rows_per_second": "5", "number_of_rows": "20"},
        {"fields__a__max": "5", "number_of_rows": "20"},
        {"fields__a__end": "25", "fields__a__kind": "sequence", "fields__a__start": "1"},
    ],
)
def test_other_rows_are_other_data(more: dict[str, str], tmp_path: Path) -> None:
    assert command(tmp_path, "run", made(DATAGEN)) == 0
    assert command(tmp_path, "plan", made(DATAGEN, **more)) in (1, 4)


def test_a_sequence_that_begins_elsewhere_is_other_data(tmp_path: Path) -> None:
    assert command(tmp_path, "run", made(SEQUENCE)) == 0
    assert command(tmp_path, "plan", made(SEQUENCE, fields__a__start="0", fields__a__end="25")) == 4


def test_rows_that_would_be_late_are_other_data(tmp_path: Path) -> None:
    """The end of all rows has closed all windows."""
    windows = """CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH
('connector' = 'datagen', 'number-of-rows' = '{rows}', 'fields.ts.max-past' = '0 s');
CREATE TABLE o WITH ('connector' = 'duckdb', 'path' = 'x.db') AS
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;"""
    assert command(tmp_path, "run", windows.format(rows=10)) == 0
    assert command(tmp_path, "plan", windows.format(rows=10)) == 0
    assert command(tmp_path, "plan", windows.format(rows=25)) == 4
