"""The table of docs/constructs.md as data: what each construct emits, keeps, and for how long.

`tests/docs/test_constructs.py` plans and runs every row, and compares it with what the row says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "constructs.md"
_AGAIN = "…"


@dataclass(frozen=True, slots=True)
class Construct:
    """A row of the table. `page` is a link to the page that describes the construct, as Markdown."""

    name: str
    example: str
    rows: str
    state: str
    kept: str
    page: str

    @property
    def is_variant(self) -> bool:
        """Whether it is a variant of the construct before it: `… of a changelog`."""
        return self.name.startswith(_AGAIN)


def tables() -> str:
    """The CREATE TABLE statements of the tables that the examples read."""
    (found,) = re.findall(r"```sql\n(.*?)```", _text(), re.DOTALL)
    return str(found)


def constructs() -> list[Construct]:
    """The rows of the table, in their order."""
    table = _text().partition("| construct |")[2]
    found = []
    for line in table.splitlines():
        if line.startswith("| "):
            name, example, *rest = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))
            found.append(Construct(name, example.strip("`").replace("\\|", "|"), *rest))
    return found


def _text() -> str:
    return _PAGE.read_text(encoding="utf-8")
