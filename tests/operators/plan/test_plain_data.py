"""Dataclasses as plain JSON data: what is written, what older versions wrote, and what is refused where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from sqlstream_operators.plan.plain_data import PLAN, PlainData, PlainRow, decode, encode, stored
from sqlstream_operators.plan.types import BIGINT, SqlType


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Point(PlainRow):
    x: int
    y: int = 0
    label: str = field(default="", metadata=stored(if_default=False))


@dataclass(frozen=True, slots=True)
class Shape(PlainData):
    name: str
    points: tuple[Point, ...] = ()
    colour: Colour = Colour.RED
    type: SqlType = BIGINT
    inside: bytes | None = field(default=None, metadata=stored(if_default=False))
    closed: bool = field(default=False, metadata=stored("shut"))
    more: Mapping[str, Any] = field(default_factory=dict)
    only: str = field(default="", metadata=stored(plans_only=True))


def test_an_object_a_row_and_what_is_left_out() -> None:
    shape = Shape("a", (Point(1, 2), Point(3, 4, "b")), inside=b"\x00", closed=True, more={"z": 1, "a": [2]})
    written = shape.to_json()
    assert written == {
        "name": "a",
        "points": [[1, 2], [3, 4, "b"]],
        "colour": "red",
        "type": "BIGINT",
        "inside": "AA==",
        "shut": True,
        "more": {"z": 1, "a": [2]},
    }
    assert Shape.from_json(json.loads(json.dumps(written))) == shape
    assert "inside" not in Shape("a").to_json()
    assert encode(Shape, Shape("a", only="x"), PLAN)["only"] == "x"


def test_what_an_older_version_wrote_takes_defaults() -> None:
    assert Shape.from_json({"name": "a", "points": [[1]]}) == Shape("a", (Point(1),))


def test_what_a_newer_version_wrote_is_read_from_files_and_refused_in_plans() -> None:
    data = {"name": "a", "new": 1}
    assert Shape.from_json(data) == Shape("a")
    with pytest.raises(ValueError, match=r"^plan: Shape has no fields \['new'\]$"):
        decode(Shape, data, "plan", PLAN)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({}, "Shape: Shape needs name"),
        ({"name": 1}, "Shape.name: 1 is not a str"),
        ({"name": None}, "Shape.name: None is not a str"),
        ({"name": "a", "points": [[1], [True]]}, r"Shape.points\[1\]\[0\]: True is not a int"),
        ({"name": "a", "points": [[]]}, r"Shape.points\[0\]: 0 items where Point has 3"),
        ({"name": "a", "points": [[1, 2, "b", 4]]}, r"Shape.points\[0\]: 4 items where Point has 3"),
        ({"name": "a", "colour": "blue"}, "Shape.colour: 'blue' is not a Colour"),
        ({"name": "a", "type": "?"}, "Shape.type: "),
        ({"name": "a", "inside": "*"}, "Shape.inside: is not base64"),
        ([], r"Shape: \[\] is not a dict"),
    ],
)
def test_what_does_not_fit_is_refused_by_place(data: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Shape.from_json(data)
