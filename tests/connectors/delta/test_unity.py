"""Tables of Unity Catalog by its names, which are not looked up: each way to write one is refused where it stands."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "CREATE TABLE o (k INT) WITH ('connector' = 'delta', 'table-path' = '{0}');\nINSERT INTO o SELECT 1;",
            "OPT003",
        ),
        ("CREATE CATALOG c WITH ('type' = 'delta', 'path' = '{0}');\nINSERT INTO c.a.b SELECT 1;", "OPT003"),
    ],
)
@pytest.mark.parametrize("uri", ["uc://main.shop.orders", "UC://main.shop.orders"])
def test_a_name_of_unity_is_refused(text: str, code: str, uri: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text.format(uri), file="p.sql")
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.span is not None
    assert "storage_location" in f"{found.message} {found.notes} {found.help}"
