"""What the command line says about single files: to go on without one, or to read one again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sqlstream.connectors.filesystem.paths import glob_pattern, listed, resolve
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

Order = Literal["skip", "again"]
#: How the command line calls them.
FLAGS: Mapping[Order, str] = {"skip": "--skip-file", "again": "--read-again"}


@dataclass(slots=True)
class FileOrders:
    """Paths (or globs) that a run was given, each with what to do about the files that it means.

    A relative path is relative to one of `folders`. `check` settles which files these are: what comes later is not meant.
    Each is carried out once by each source that has it, however often sources are made anew: `take` says what is left.
    """

    given: Sequence[tuple[Order, str]] = ()
    folders: Sequence[str] = ()
    _meant: dict[str, Order] = field(default_factory=dict)
    _done: set[tuple[str, str]] = field(default_factory=set)

    def means(self, text: str, paths: Iterable[str]) -> list[str]:
        """Which of these paths a given one means: itself, or those that it matches as a glob.

        >>> FileOrders(folders=("/d",)).means("a*", ["/d/a1", "/d/b", "/a1"])
        ['/d/a1']
        """
        spelled = {text} if "://" in text else {resolve(text, folder) for folder in self.folders or ("/",)}
        known = list(paths)
        exact = [path for path in known if path in spelled]
        patterns = [glob_pattern(one) for one in spelled]
        return exact or [path for path in known if any(pattern.fullmatch(path) for pattern in patterns)]

    def take(self, source: str, paths: Iterable[str]) -> dict[str, Order]:
        """What a source is to do about these paths of its own; given once."""
        found = {path: self._meant[path] for path in paths if self.wanted(source, path)}
        self._done |= {(source, path) for path in found}
        return found

    def wanted(self, source: str, path: str) -> bool:
        """Whether a source has something to do about a path that was not done yet."""
        return path in self._meant and (source, path) not in self._done

    def check(self, paths: Iterable[str]) -> None:
        """Settle which of all sources' `paths` are meant. Raises DiagnosticError (DAT004, exit code 2) if one means none."""
        known = list(dict.fromkeys(paths))
        for order, text in self.given:
            meant = self.means(text, known)
            self._meant.update(dict.fromkeys(meant, order))
            if not meant:
                near = did_you_mean(Path(text).name, [Path(path).name for path in known])
                like = [path for path in known if Path(path).name == near]
                raise DiagnosticError(
                    Diagnostic(
                        "DAT004",
                        f"{FLAGS[order]} {text}: no source of the pipeline has such a file",
                        notes=(f"the sources have {listed(sorted(known))}",),
                        help=f"did you mean '{like[0]}'?" if like else None,
                    ),
                    exit_code=2,
                )
