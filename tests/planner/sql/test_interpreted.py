"""sqlglot may be installed compiled: its sources are used all the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from sqlstream_planner.sql.interpreted import from_sources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package whose module `half` has a compiled copy, which can't be loaded."""
    folder = tmp_path / "halfcompiled"
    (folder / "below").mkdir(parents=True)
    for file in ("__init__.py", "below/__init__.py", "below/plain.py"):
        (folder / file).write_text("")
    for module in ("half", "below/half"):
        (folder / f"{module}.py").write_text("class Open: ...\n")
        (folder / f"{module}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield folder.name
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_modules_come_from_their_sources(package: str) -> None:
    with pytest.raises(ImportError):
        __import__(f"{package}.half")
    from_sources(package)
    from_sources(package)
    __import__(f"{package}.half")
    __import__(f"{package}.below.half")
    __import__(f"{package}.below.plain")
    assert sys.modules[f"{package}.below.half"].Open is not sys.modules[f"{package}.half"].Open
    assert [getattr(f, "package", None) for f in sys.meta_path].count(package) == 1


def test_what_is_loaded_compiled_is_told(package: str, tmp_path: Path) -> None:
    loaded = ModuleType(f"{package}.half")
    loaded.__file__ = str(tmp_path / f"half{EXTENSION_SUFFIXES[0]}")
    sys.modules[loaded.__name__] = loaded
    with pytest.raises(
        ImportError, match=f"import sqlstream_planner before {package}, or uninstall {package}c"
    ):
        from_sources(package)


def test_where_nothing_is_compiled_nothing_is_done() -> None:
    before = list(sys.meta_path)
    from_sources("json")
    from_sources("no_such_package")
    assert sys.meta_path == before
