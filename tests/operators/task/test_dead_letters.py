"""The file in which a task collects the rows that it could not use."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sqlstream_operators.duck.relations import Relations
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import LateStep
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_operators.task.dead_letters import DeadLetters, StagedDeadLetters, digest
from sqlstream_operators.task.epoch import EpochContext

DUCK = DuckSession()


@dataclass(frozen=True)
class Bad:
    origin: str
    line: int | None
    raw: str
    reason: str


@dataclass(frozen=True)
class Placed:
    origin: str
    line: int | None
    raw: str | bytes
    reason: str
    position: Mapping[str, Any] | None = None
    key: bytes | None = None


def letters(root: Path, task: str = "0-00001") -> DeadLetters:
    epoch = EpochContext(3, 1, 16, {}, checkpoint=str(root / "store"), local_dir=str(root / "local"))
    return DeadLetters(epoch, task)


#: A number below 0 has no window; one from 100 on is in time.
LATE_SQL = """SELECT CASE WHEN a >= 0 THEN make_timestamp(0) END AS window_start,
CASE WHEN a >= 0 THEN make_timestamp(10) END AS window_end, CASE WHEN a >= 0 THEN 1 END AS windows,
make_timestamp(a) AS event_time, '{"a": ' || a || '}' AS "row"
FROM t WHERE a < $late_watermark"""
STEP = LateStep(
    "late",
    "t",
    (),
    WindowSpec(WindowKind.TUMBLE, 10, 10),
    1,
    ("t",),
    "op",
    "t",
    LATE_SQL,
    ("t",),
)


def rows(*values: int) -> Relations:
    DUCK.reset()
    relations = Relations(DUCK)
    relations.add_sql("t", f"SELECT unnest({list(values)}::BIGINT[]) AS a", ())
    return relations


def staged(root: Path, found: StagedDeadLetters | None) -> list[dict[str, Any]]:
    assert found is not None
    return [json.loads(line) for line in (root / "store" / found.file).read_text().splitlines()]


def test_rows_of_all_kinds_are_in_one_file_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    with closing(letters(tmp_path)) as kept:
        assert kept.late(STEP, rows(1, -1, 2, 100), 50) == 2
        assert kept.timeless(STEP, rows(1, -1, -2, 100), 50) == 2
        assert kept.malformed("t", [Bad("f", 1, "ä", "bad"), Bad("f", None, "y", "worse")]) == 2
        assert kept.malformed("t", [Bad("g", 2, "z", "bad")]) == 1
        assert kept.late(STEP, rows(3), 51) == 1
        found = kept.stage()
        assert found is not None
        assert found.rows == {"late": 3, "malformed": 3, "no-time": 2}
        lines = staged(tmp_path, found)
    late = {"epoch": 3, "kind": "late", "source": "t", "operator": "op"}
    assert lines[0] == {
        **late,
        "reason": "the window was closed: the watermark is 50 µs",
        "window_start": "1970-01-01 00:00:00",
        "window_end": "1970-01-01 00:00:00.00001",
        "windows": 1,
        "event_time": "1970-01-01 00:00:00.000001",
        "row": {"a": 1},
    }
    assert [(line["kind"], line.get("origin"), line["row"]) for line in lines] == [
        ("late", None, {"a": 1}),
        ("late", None, {"a": 2}),
        ("no-time", None, {"a": -1}),
        ("no-time", None, {"a": -2}),
        ("malformed", "f", "ä"),
        ("malformed", "f", "y"),
        ("malformed", "g", "z"),
        ("late", None, {"a": 3}),
    ]
    assert "window_end" not in lines[2]
    assert [line.get("line", "none") for line in lines[4:7]] == [1, "none", 2]
    assert list((tmp_path / "local").iterdir()) == [], "the folder of the task's machine goes"


def test_a_row_of_a_queue_has_a_position_and_bytes(tmp_path: Path) -> None:
    """Bytes that are no text are kept whole, beside text that can be read."""
    with closing(letters(tmp_path)) as kept:
        at = {"topic": "clicks", "partition": 3, "offset": 17}
        kept.malformed(
            "t",
            [Placed("topic clicks", None, b'{"a": ', "bad", at, b"k\x80"), Placed("o", None, b"\xff", "b")],
        )
        text, binary = staged(tmp_path, kept.stage())
    constant = {"epoch": 3, "kind": "malformed", "source": "t"}
    assert text == {
        **constant,
        "origin": "topic clicks",
        "position": at,
        "key": "k\\x80",
        "key_base64": "a4A=",
        "reason": "bad",
        "row": '{"a": ',
    }
    assert binary == {**constant, "origin": "o", "reason": "b", "row": "\\xff", "row_base64": "/w=="}


def test_without_any_nothing_is_staged(tmp_path: Path) -> None:
    with closing(letters(tmp_path)) as kept:
        assert kept.late(STEP, rows(100), 50) == 0
        assert kept.timeless(STEP, rows(1), 50) == 0
        assert kept.malformed("t", []) == 0
        assert (kept.stage(), dict(kept.counts)) == (None, {})
    assert not (tmp_path / "store").exists()


def test_what_is_forgotten_is_not_staged(tmp_path: Path) -> None:
    """A source is read once more, carefully: what the first reading left goes."""
    with closing(letters(tmp_path)) as kept:
        kept.malformed("t", [Bad("f", 1, "old", "bad")])
        kept.clear()
        assert kept.stage() is None
        kept.malformed("t", [Bad("f", 1, "new", "bad")])
        assert [line["row"] for line in staged(tmp_path, kept.stage())] == ["new"]


def test_the_name_of_a_file_is_that_of_its_content_and_its_task(tmp_path: Path) -> None:
    def name(text: str, task: str = "0-00001") -> str:
        with closing(letters(tmp_path, task)) as kept:
            kept.malformed("t", [Bad("f", 1, text, "bad")])
            found = kept.stage()
            assert found is not None
            return found.file

    assert name("a") == name("a")
    assert len({name("a"), name("b"), name("a", "0-00002")}) == 3


@pytest.mark.parametrize("at", [0, 1 << 20, (2 << 20) + 5])
def test_every_byte_of_a_large_file_counts(at: int) -> None:
    content = bytearray(b"x" * ((2 << 20) + 10))
    before = digest(io.BytesIO(bytes(content)))
    content[at] = 0
    assert digest(io.BytesIO(bytes(content))) != before
