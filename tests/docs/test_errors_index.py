"""docs/errors.md lists every code that the source can give, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CODE = re.compile(r'"((?:SQL|TYP|CAT|OPT|SET|TPL|STA|GLD|ENV|DAT|PRJ|SAV|TST|UIS|SHL)\d{3})"')


def test_every_code_is_documented() -> None:
    used: set[str] = set()
    for folder in ("planner", "operators", "sqlstream"):
        for path in (ROOT / folder).rglob("*.py"):
            used |= set(_CODE.findall(path.read_text(encoding="utf-8")))
    documented = re.findall(
        r"^\| ([A-Z]{3}\d{3}) \|", (ROOT / "docs/errors.md").read_text(encoding="utf-8"), re.M
    )
    assert len(set(documented)) == len(documented), "a code is listed twice"
    assert set(documented) == used
