"""Absolute goldens: the identity of each state of some queries, as text, one file a query.

Stored identities outlive releases: a text here may change only with the version of the form. After raising it,

    python -m pytest tests/identity/test_goldens.py --rewrite-identities

writes the files anew; it refuses while any file of the same version would change. New queries get their files so too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.identity.adapter import FORM_VERSION, stored_identities

HERE = Path(__file__).parent
GOLDENS = HERE / "goldens" / "states"
TABLES = (HERE / "tables.sql").read_text()


def queries() -> dict[str, str]:
    """File name -> query: the blocks of goldens.txt, and the first query of each block of same.txt and different.txt."""
    found: dict[str, str] = {}
    for file in ("goldens.txt", "same.txt", "different.txt"):
        for block in (HERE / file).read_text().split("\n# ")[1:]:
            name, _, body = block.partition("\n")
            slug = "_".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
            stem = f"{file.removesuffix('.txt')}-{slug}"
            assert stem not in found, name
            found[stem] = body.partition("\n==")[0].strip()
    return found


QUERIES = queries()


def text_of(query: str) -> str:
    """The golden text: the version, the query, and the identities as JSON."""
    identities = json.dumps(
        stored_identities(f"{TABLES}{query};"), indent=1, sort_keys=True, ensure_ascii=False
    )
    return f"version {FORM_VERSION}\n{query}\n\n{identities}\n"


def version_of(text: str) -> int:
    return int(text.partition("\n")[0].removeprefix("version "))


@pytest.mark.xfail(strict=True, raises=NotImplementedError, reason="awaits identities that are stored whole")
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
