"""What messages call things."""

from __future__ import annotations

import pytest

from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import plan_file


def test_columns_are_called_as_the_user_calls_them() -> None:
    text = """CREATE TABLE t (`user` STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
        SELECT `user` FROM t;
        SELECT ts FROM t WHERE `user` > 5;"""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(text, file="p.sql")
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.help is not None
    assert "CAST(`user` AS INTEGER)" in diagnostic.help
