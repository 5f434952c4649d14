"""For each diagnostic code of a file: a `.sql` that gives it, and the message as it is shown.

UPDATE_GOLDENS=1 writes the messages; read them before you commit them: would they help you?
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError, render

ROOT = Path(__file__).parents[2]
ERRORS = Path(__file__).parent / "errors"
FILES = sorted(ERRORS.glob("*.sql"))

#: Codes of the planner that no small file gives, and why.
ELSEWHERE = {
    "OPT007": "of a run: in tests/planner/catalog/test_secrets.py",
    "SQL000": "the file itself can't be read",
    "SQL008": "in tests/planner/sql/syntax_errors.txt",
    "SQL016": "no connector is only a source and passes the catalog, which says OPT006",
    "SQL047": "the grammar takes FILTER only behind calls that are typed first",
    "SQL102": "a warning",
    "SQL103": "a warning",
    "SQL104": "a warning",
    "SQL108": "a warning",
    "SQL109": "a note, in tests/docs/test_flink.py",
    "SQL105": "a warning",
    "SQL106": "a warning",
    "SQL107": "in tests/planner/sql/test_depth.py",
    "SET004": "a warning",
    "CAT007": "in tests/planner/catalog/test_catalog.py",
    "CAT008": "in tests/planner/catalog/test_catalog.py",
    "CAT011": "in tests/planner/catalog/test_catalog.py",
    "CAT015": "in tests/planner/catalog/test_foreign.py",
    "OPT006": "in tests/planner/catalog/test_catalog.py",
    "TPL004": "in tests/planner/sql/test_template.py",
    "TPL007": "in tests/planner/sql/test_template.py",
    "TPL008": "in tests/planner/sql/test_template.py",
    "TYP008": "names are resolved before, with SQL010",
    "TYP009": "in tests/planner/expressions/test_infer.py",
    "TYP010": "in tests/planner/expressions/test_infer.py",
    "TYP011": "in tests/planner/expressions/test_translate.py",
    "GLD001": "in tests/golden",
}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_message(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file=path.name)
    assert caught.value.exit_code == 1
    assert path.stem in {d.code for d in caught.value.diagnostics}
    shown = "\n\n".join(render(d, text) for d in caught.value.diagnostics) + "\n"
    golden = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


def test_every_code_of_the_planner_has_a_file() -> None:
    found: set[str] = set()
    for source in (ROOT / "planner").rglob("*.py"):
        found |= set(
            re.findall(r'"((?:SQL|TYP|CAT|OPT|SET|TPL|GLD)\d{3})"', source.read_text(encoding="utf-8"))
        )
    assert {f.stem for f in FILES} | set(ELSEWHERE) == found
    assert not {f.stem for f in FILES} & set(ELSEWHERE)
