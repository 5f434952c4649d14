"""Pairs of queries that look different and have one state (same.txt), or look alike and have not (different.txt)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.identity.adapter import State, identities

HERE = Path(__file__).parent
TABLES = (HERE / "tables.sql").read_text()


@dataclass(frozen=True)
class Pair:
    """Two pipelines; `wrong` says why they are not yet as the file says."""

    name: str
    one: str
    other: str
    wrong: str | None = None


def pairs(file: str) -> Iterator[Pair]:
    """The pairs of a file: the first query of a block with each of the others; "== ! reason" stands before one."""
    for block in (HERE / file).read_text().split("\n# ")[1:]:
        name, _, body = block.partition("\n")
        one, *others = re.split(r"^==", body, flags=re.MULTILINE)
        assert others, f"{file}: {name} has one query"
        for number, text in enumerate(others, 1):
            wrong, _, other = text.partition("\n")
            title = f"{name} {number}" if len(others) > 1 else name
            yield Pair(title, one.strip(), other.strip(), wrong.strip(" !") or None)


def parameters(file: str) -> list[object]:
    found: list[object] = []
    for pair in pairs(file):
        marks = [pytest.mark.xfail(strict=True, reason=pair.wrong)] if pair.wrong else []
        found.append(pytest.param(pair, id=pair.name, marks=marks))
    return found


@cache
def states(query: str) -> list[State]:
    """The states of a query over the tables that are always there."""
    return identities(f"{TABLES}{query};")


@pytest.mark.parametrize("pair", parameters("same.txt"))
def test_they_have_the_same_states(pair: Pair) -> None:
    assert states(pair.one)
    assert states(pair.other) == states(pair.one)


@pytest.mark.parametrize("pair", parameters("different.txt"))
def test_they_have_different_states(pair: Pair) -> None:
    assert states(pair.one)
    assert states(pair.other)
    assert states(pair.other) != states(pair.one)


def test_there_are_many_pairs_of_each_kind() -> None:
    assert len(list(pairs("same.txt"))) >= 60
    assert len(list(pairs("different.txt"))) >= 60
