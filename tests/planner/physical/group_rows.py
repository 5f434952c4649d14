"""Groupings, and rows with ties, NULLs and duplicates, for tests of group aggregates."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tests.planner.physical.group_cases import COLUMNS, Epoch, Row, Shape

MODES = pytest.mark.parametrize("retracting", [False, True], ids=["append-only", "retracting"])

SHAPES = [
    Shape(()),
    Shape(("k",)),
    Shape(("g", "k")),
    Shape(("k % 2", "g")),
    Shape(("k", "g"), ((0, 1), (0,), ())),
    Shape(("g", "k"), ((0,), (1,))),
    Shape((), ((),)),
]


def row(k: int | None = 1, g: str | None = "a", **values: Any) -> Row:
    """A row; columns that are not given are NULL."""
    return tuple({**dict.fromkeys(COLUMNS), "k": k, "g": g, **values}[name] for name in COLUMNS)


def day(n: int) -> dt.datetime:
    return dt.datetime(2024, 1, n)


TIES: list[Row] = [
    row(
        x=3,
        y=1,
        d=Decimal("1.50"),
        f=0.5,
        z=float("nan"),
        s="b",
        b=True,
        t=day(1),
        l=[1, None],
        r={"p": 1, "q": None},
    ),
    row(x=1, y=2, d=Decimal("2.25"), f=2.0, z=0.0, s="a", b=False, t=day(2), l=[1], r={"p": None, "q": "a"}),
    row(x=1, y=1, d=Decimal("-1.50"), f=-1.5, z=-0.0, s="c", b=True, t=day(2), l=[], r={"p": 1, "q": "a"}),
    row(x=3, y=-1, d=Decimal("1.50"), f=0.5, z=1.0, s="", b=None, t=day(3), l=[1, 2], r={"p": 2, "q": "b"}),
    row(x=2, y=1, s="a", b=False, f=1.25, l=[None], t=day(1)),
    row(x=None, y=0, s="b", b=True, z=float("inf"), f=1.25, d=Decimal("0.01"), r={"p": 1, "q": "a"}),
    row(),
    row(k=2),
    row(k=2, g=None),
    row(
        k=None,
        x=7,
        s="z",
        b=True,
        f=7.0,
        d=Decimal("7.00"),
        z=7.0,
        y=7,
        t=day(7),
        l=[7],
        r={"p": 7, "q": "z"},
    ),
]


def fixed_epochs(*, retracting: bool) -> list[Epoch]:
    """Ties, groups of NULLs, values that come twice; if rows can go, some go and a group vanishes."""
    first = [(r, 1 + n % 2) for n, r in enumerate(TIES)]
    if not retracting:
        return [[(r, 1) for r in TIES], [], [(r, 1) for r in TIES[::2]]]
    extra = row(
        k=3,
        x=9,
        y=9,
        d=Decimal("99.99"),
        f=9.0,
        z=-9.0,
        s="~",
        b=False,
        t=day(9),
        l=[9],
        r={"p": 0, "q": ""},
    )
    best = (*[1, "a"], *extra[2:])
    gone = [(TIES[1], -2), (TIES[0], -1), (TIES[2], 1), (extra, -2), (best, -1), (TIES[7], -2)]
    return [[*first[:5], (extra, 2), (best, 1)], first[5:], [], gone]
