"""What a test plans again and again is planned once: a run, an edit and each command of a test plan the same file."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

from sqlstream_planner import pipeline
from sqlstream_planner.catalog.descriptor import Connectors
from sqlstream_planner.catalog.foreign.descriptor import NO_CATALOGS, Catalogs
from sqlstream_planner.pipeline import Planned

#: Tests of these look at planning itself, and may ask whether a second time gives the same.
PLANNING = ("tests/planner/", "tests/identity/", "planner/")


@contextmanager
def planned_once() -> Iterator[None]:
    """Inside, `sqlstream.planning.plan_file` gives the plan that it has given for the same text and all else."""
    plans: dict[Hashable, Planned] = {}
    with mock.patch.object(pipeline, "plan_file", _remembering(pipeline.plan_file, plans)):
        yield


def _remembering(plan: Callable[..., Planned], plans: dict[Hashable, Planned]) -> Callable[..., Planned]:
    def plan_file(
        source: Path | str,
        *,
        connectors: Connectors,
        file: str | None = None,
        variables: Mapping[str, Any] = MappingProxyType({}),
        env: Mapping[str, str] = MappingProxyType({}),
        search_path: Sequence[Path] = (),
        moved: Mapping[str, str] = MappingProxyType({}),
        catalogs: Catalogs = NO_CATALOGS,
    ) -> Planned:
        def planned() -> Planned:
            return plan(
                source,
                connectors=connectors,
                file=file,
                variables=variables,
                env=env,
                search_path=search_path,
                moved=moved,
                catalogs=catalogs,
            )

        text = _text(source)
        if text is None:
            return planned()
        name = file or (str(source) if isinstance(source, Path) else None)
        # The connectors are kept with the key: another of the same address can't come after them.
        held = _Same(connectors.descriptors)
        key = (name, text, held, connectors.printing, connectors.elsewhere, frozenset(moved.items()))
        if key not in plans:
            plans[key] = planned()
        return plans[key]

    return plan_file


class _Same:
    """Equal to nothing but what holds the very same objects."""

    def __init__(self, held: tuple[object, ...]) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and [*map(id, self._held)] == [*map(id, other._held)]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._held)))


def _text(source: Path | str) -> bytes | str | None:
    """What is planned; None if it can't be read, or if another plan may come of it: it asks a catalog, or a template makes
    another text of it, with files of its own.
    """
    try:
        text = source.read_bytes() if isinstance(source, Path) else source
    except OSError:
        return None
    if re.search(
        r"create\s+catalog", text if isinstance(text, str) else text.decode(errors="replace"), re.IGNORECASE
    ):
        return None  # another table may be in the store by now
    braces = ("{{", "{%", "{#") if isinstance(text, str) else (b"{{", b"{%", b"{#")
    return None if any(brace in text for brace in braces) else text  # type: ignore[operator]
