"""docs/running/settings.md has every setting, with its type and default, and every one that is refused."""

from __future__ import annotations

import re
from pathlib import Path

from sqlstream_planner.catalog.job_options import JOB_OPTIONS, REFUSED

PAGE = (Path(__file__).parents[2] / "docs/running/settings.md").read_text(encoding="utf-8")


def _rows(heading: str) -> dict[str, list[str]]:
    table = PAGE.split(heading + "\n")[1].partition("\n\n")[0].splitlines()[1:]
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in table)
    return {first.strip("`"): rest for first, *rest in cells}


def test_every_setting_is_described_with_its_type_and_default() -> None:
    rows = _rows("| setting | type | default | what it does |")
    assert rows.keys() == {option.name for option in JOB_OPTIONS}
    for option in JOB_OPTIONS:
        kind, default, what = rows[option.name]
        assert what
        if option.choices:
            assert re.findall(r"`([^`]+)`", kind) == list(option.choices), option.name
        else:
            assert kind == option.kind.value, option.name
        if option.default is not None:
            assert default == f"`{option.default}`", option.name


def test_every_setting_that_is_refused_is_listed() -> None:
    assert _rows("| refused | instead |").keys() == REFUSED.keys()
