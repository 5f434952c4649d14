"""Packages that only some connectors need: an extra of the installation each."""

from __future__ import annotations

import importlib
from types import ModuleType

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def installed(module: str, what: str, extra: str) -> ModuleType:
    """A package, which messages call `what`. Raises DiagnosticError (ENV009) if it is not installed, with its extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DiagnosticError(
            Diagnostic(
                "ENV009",
                f"{what} is not installed",
                notes=(f"import of {module}: {error}",),
                help=f"pip install 'sqlstream-spark[{extra}]'",
            ),
            exit_code=5,
        ) from error
