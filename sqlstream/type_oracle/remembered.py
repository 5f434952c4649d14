"""Answers that are kept from one run to the next, so that most files are checked without loading DuckDB.

To the usual questions the package has a known DuckDB's answers itself (`duckdb-….json`), which serve until there is a file.

What is kept are facts of one DuckDB: the file's name has a digest of the library's path, size and time, so another DuckDB
never finds it. A file that is damaged, or that others could write, is as good as none; nothing fails for want of it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream_operators.plan.types import SqlType, parse_type
from sqlstream_planner.expressions.oracle import Listed, Question, Refused, Signature, TypeOracle

#: Another number when questions or answers are written in another way.
_FORMAT = 3
#: A file with more answers is begun anew.
_MOST = 5000


class RememberedTypes:
    """The answers of `oracle`, with types, constants without fault and the list of functions kept in `file`; None: nowhere.

    `first` has answers that came with the package, for where nothing is kept yet.

    Refusals are computed each time: they end the planning of a file.
    """

    def __init__(self, oracle: TypeOracle, file: Path | None, first: Path | None = None) -> None:
        self._oracle = oracle
        self._file = file
        self._first = first
        self._kept: _Kept | None = None
        self._changed = False

    def type_of(self, question: Question) -> SqlType | Refused:
        """The type, UNKNOWN if no column of ours can have it, or why DuckDB refuses."""
        known, key = self._load().types, _key(question)
        found = known.get(key)
        if found is not None:
            return parse_type(found)
        answer = self._oracle.type_of(question)
        if isinstance(answer, SqlType):
            known[key] = str(answer)
            self._changed = True
        return answer

    def failures(self, constants: Sequence[str]) -> Sequence[str | None]:
        """Of each constant: why DuckDB can't compute its value; None: nothing is wrong with it."""
        good = self._load().constants
        unknown = [c for c in constants if _short_digest(c) not in good]
        if not unknown:
            return [None] * len(constants)
        whys = dict(zip(unknown, self._oracle.failures(unknown), strict=True))
        good.update(dict.fromkeys(_short_digest(c) for c, why in whys.items() if why is None))
        self._changed = True
        return [whys.get(c) for c in constants]

    def functions(self) -> Mapping[str, Listed]:
        """All functions by their names in lower case."""
        kept = self._load()
        if not kept.functions:
            kept.functions = self._oracle.functions()
            self._changed = True
        return kept.functions

    def signatures(self, name: str) -> tuple[Signature, ...]:
        """What a function can be called with, by its name in lower case; sorted."""
        return self._oracle.signatures(name)

    def save(self) -> None:
        """Keep what is new; without a word if that can't be done."""
        if not self._changed or self._file is None or self._kept is None:
            return
        self._changed = False
        content = json.dumps(self.kept(), separators=(",", ":"))
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._file.parent, delete=False, encoding="utf-8", prefix="types-"
            ) as new:
                new.write(_digest(content) + "\n" + content)
            Path(new.name).replace(self._file)
        except OSError:
            return

    def kept(self) -> dict[str, Any]:
        """What a file has of the answers."""
        kept = self._load()
        return {
            "types": dict(list(kept.types.items())[-_MOST:]),
            "constants": list(kept.constants)[-_MOST:],
            "functions": {n: [f.kind, f.stability, f.definition] for n, f in self.functions().items()},
        }

    def _load(self) -> _Kept:
        if self._kept is None:
            found = _read(self._file) if self._file is not None else None
            if found is None and self._first is not None:
                found = json.loads(self._first.read_bytes())
            self._kept = (_Kept.of(found) if found is not None else None) or _Kept()
        return self._kept


@dataclass(slots=True)
class _Kept:
    """Types as text by their questions, digests of constants (a dict, in order), and functions by their names."""

    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, None] = field(default_factory=dict)
    functions: Mapping[str, Listed] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> _Kept | None:
        """What a file says; None if it is no such file."""
        try:
            functions = {name: Listed(*given) for name, given in found["functions"].items()}
            return cls(dict(found["types"]), dict.fromkeys(found["constants"]), functions)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def default_file() -> Path | None:
    """Where the answers of the installed DuckDB are kept: in `$XDG_CACHE_HOME/sqlstream`, else in `~/.cache/sqlstream`."""
    library = _library()
    if library is None:
        return None
    try:
        at = library.stat()
        folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except (OSError, RuntimeError):
        return None
    of = _digest(f"{_FORMAT} {library} {at.st_size} {at.st_mtime_ns}")
    return Path(folder) / "sqlstream" / f"types-{of[:16]}.json"


def first_file() -> Path | None:
    """The answers that came with this package, if they are the installed DuckDB's, by its version."""
    library = _library()
    if library is None:
        return None
    files = Path(__file__).parent.glob("duckdb-*.json")
    return next((file for file in files if (library.parent / f"{file.stem}.dist-info").is_dir()), None)


def _library() -> Path | None:
    found = next((s for s in map(importlib.util.find_spec, ("_duckdb", "duckdb")) if s is not None), None)
    return None if found is None or found.origin is None else Path(found.origin)


def _key(question: Question) -> str:
    return f"{question.rows.value} {question.sql}"


def _read(file: Path) -> dict[str, Any] | None:
    try:
        with file.open(encoding="utf-8") as opened:
            at = os.fstat(opened.fileno())
            if at.st_uid != os.getuid() or stat.S_IMODE(at.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            digest, _, content = opened.read().partition("\n")
        found = json.loads(content) if digest == _digest(content) else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _short_digest(constant: str) -> str:
    """A constant may be long, and what the user keeps to himself."""
    return _digest(constant)[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
