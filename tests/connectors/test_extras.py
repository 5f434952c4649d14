"""What is said of a package that a connector needs and that is not installed."""

from __future__ import annotations

import pytest

from sqlstream.connectors.extras import installed
from sqlstream_planner.diagnostics import DiagnosticError


def test_a_package_that_is_not_there_is_named_with_its_extra() -> None:
    with pytest.raises(DiagnosticError) as raised:
        installed("no_such_package", "Delta's library", "delta")
    (found,) = raised.value.diagnostics
    assert (found.code, found.message) == ("ENV009", "Delta's library is not installed")
    assert found.help == "pip install 'sqlstream-spark[delta]'"
    assert raised.value.exit_code == 5
    assert installed("json", "JSON", "none").loads("1") == 1
