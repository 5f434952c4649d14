"""Python's own sources of a package that is installed compiled, too.

sqlglot can be installed with compiled copies of its modules beside their sources (`sqlglot[c]`), and Python prefers those.
Our dialect is made of subclasses of its parser and generator, and an interpreted class can't be one of a compiled class.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType


class _Sources:
    """A finder of modules that finds those of one package as sources only."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of the package is; None for all others."""
        if path is None or not name.startswith(f"{self.package}."):
            return None
        finders = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)) for folder in path)
        return next(
            (spec for spec in (finder.find_spec(name) for finder in finders) if spec is not None), None
        )


def from_sources(package: str) -> None:
    """From now on the modules of `package` come from their sources, if there are compiled copies of them.

    Raises ImportError if some were loaded compiled before.
    """
    found = importlib.util.find_spec(package)
    folders = [Path(f) for f in (found.submodule_search_locations or ())] if found is not None else []
    compiled = tuple(EXTENSION_SUFFIXES)
    if not any(file.name.endswith(compiled) for folder in folders for file in folder.iterdir()):
        return
    inside = [module for name, module in list(sys.modules.items()) if name.startswith(f"{package}.")]
    if any(str(getattr(module, "__file__", "")).endswith(compiled) for module in inside):
        raise ImportError(
            f"{package} is loaded in its compiled form, which sqlstream can't extend: import sqlstream_planner before "
            f"{package}, or uninstall {package}c"
        )
    if not any(isinstance(finder, _Sources) and finder.package == package for finder in sys.meta_path):
        sys.meta_path.insert(0, _Sources(package))
