"""The forms of some hundred expressions, letter by letter: what states of last month were named by.

goldens/expressions.txt may only change together with FORM_VERSION. To write it anew after raising the version:
`REWRITE_FORMS=1 pytest tests/identity/test_expression_goldens.py`; expressions may be added without that.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sqlstream_planner.identity.expression import FORM_VERSION
from sqlstream_planner.identity.form import text
from tests.identity.expressions import form_of

GOLDENS = Path(__file__).parent / "goldens"
WRITTEN = [line for line in (GOLDENS / "expressions.sql").read_text(encoding="utf-8").splitlines() if line]
HEAD = re.compile(r"forms of version (\d+)\n")


def golden() -> tuple[int, dict[str, str]]:
    """The version that the golden file is of, and the text of each expression's form in it."""
    path = GOLDENS / "expressions.txt"
    if not path.exists():
        return 0, {}
    content = path.read_text(encoding="utf-8")
    head = HEAD.match(content)
    assert head is not None
    blocks = content[head.end() :].strip("\n").split("\n\n")
    return int(head.group(1)), dict(block.split("\n", 1) for block in blocks)


def shown(sql: str) -> str:
    found = form_of(sql)
    return f"{text(found)}\n{found.digest}"


def test_the_forms_are_those_of_this_version() -> None:
    version, known = golden()
    now = {sql: shown(sql) for sql in WRITTEN}
    changed = {sql: form for sql, form in now.items() if known.get(sql, form) != form}
    if os.environ.get("REWRITE_FORMS"):
        if changed and version == FORM_VERSION:
            pytest.fail(
                f"{len(changed)} forms changed: raise FORM_VERSION, or states are lost without a word"
            )
        blocks = "\n\n".join(f"{sql}\n{form}" for sql, form in now.items())
        (GOLDENS / "expressions.txt").write_text(
            f"forms of version {FORM_VERSION}\n\n{blocks}\n", encoding="utf-8"
        )
        return
    assert version == FORM_VERSION, "write the goldens anew, see above"
    assert not changed, "forms changed; if they must, raise FORM_VERSION"
    assert list(known) == WRITTEN, "expressions were added or left out: write the goldens anew, see above"


def test_there_are_a_hundred() -> None:
    assert len(set(WRITTEN)) == len(WRITTEN) >= 100
