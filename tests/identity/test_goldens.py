"""Absolute goldens: the identity of each state of some queries, as text, one file a query.

Stored identities outlive releases: a text here may change only with the version of the form. After raising it,

    python -m pytest tests/identity/test_goldens.py --rewrite-identities

writes the files anew; it refuses while any file of the same version would change. New queries get their files so too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.identity.adapter import FORM_VERSION, stored_identities

HERE = Path(__file__).parent
GOLDENS = HERE / "goldens" / "states"
TABLES = (HERE / "tables.sql").read_text()


def queries() -> dict[str, str]:
    """File name -> query: goldens.txt, the first query of each block of same.txt, and all of different.txt."""
    found: dict[str, str] = {}
    for file in ("goldens.txt", "same.txt", "different.txt"):
        for block in (HERE / file).read_text().split("\n# ")[1:]:
            name, _, body = block.partition("\n")
            slug = "_".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
            for number, query in enumerate(re.split(r"^==.*\n", body, flags=re.MULTILINE)):
                if number and file == "same.txt":
                    break
                stem = f"{file.removesuffix('.txt')}-{slug}{f'-{number}' if number else ''}"
                assert stem not in found, name
                found[stem] = query.strip()
    return found


QUERIES = queries()


def text_of(query: str) -> str:
    """The golden text: the version, the query, and the identities of its states."""
    identities = "\n\n".join(_shown(one) for one in stored_identities(f"{TABLES}{query};"))
    return f"version {'.'.join(map(str, FORM_VERSION))}\n{query}\n\n{identities}\n"


def _shown(identity: Mapping[str, Any]) -> str:
    """All of an identity, each form on a line of its own with its number in front."""
    forms = [f"{number:4} {_json(form)}" for number, form in enumerate(identity["forms"])]
    roots = [f"{key}: {_json(value)}" for key, value in sorted(identity["roots"].items())]
    rest = [
        f"{key}: {_json(value)}" for key, value in sorted(identity.items()) if key not in ("forms", "roots")
    ]
    return "\n".join([*rest, *roots, *forms])


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def version_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.partition("\n")[0].removeprefix("version ").split(".")))


@pytest.mark.parametrize("name", QUERIES)
def test_identities_are_those_of_the_goldens(name: str, request: pytest.FixtureRequest) -> None:
    file, text = GOLDENS / f"{name}.txt", text_of(QUERIES[name])
    if request.config.getoption("--rewrite-identities", default=False):
        kept = file.read_text() if file.exists() else None
        if kept is not None and kept != text and version_of(kept) >= FORM_VERSION:
            pytest.fail(f"{file.name} would change: raise the form's version, {FORM_VERSION}, first")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.exists(), "run with --rewrite-identities to write it"
    assert text == file.read_text()


def test_there_is_no_golden_of_no_query() -> None:
    assert {file.stem for file in GOLDENS.glob("*.txt")} <= QUERIES.keys()
