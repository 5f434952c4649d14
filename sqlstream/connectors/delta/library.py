"""The package `deltalake`, and a table of it."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.connectors.exactly_once.sink import ATTEMPTS, PAUSE_S
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream.connectors.extras import installed
from sqlstream.connectors.filesystem.paths import check_login, is_object, split_location
from sqlstream_operators.errors import InternalError
from sqlstream_operators.state.store_options import missing_place, without_signatures

if TYPE_CHECKING:
    from deltalake import DeltaTable

_T = TypeVar("_T")
_COLOURS = re.compile(r"\x1b\[\d+m")
#: How many lines of an error of Delta's library are reported: behind them is what its developers need.
_LINES = 3


def deltalake() -> ModuleType:
    """The package. Raises DiagnosticError (ENV009) if it is not installed."""
    return installed("deltalake", "Delta's library", "delta")


@functools.lru_cache(maxsize=32)
def place_and_options(location: str) -> tuple[str, dict[str, str] | None]:
    """A resolved path as `deltalake` takes it: without what opens it, which are the options of its store.

    Found out once: Amazon may have to be asked for a bucket's region, and each epoch opens its table.

    Raises StorePlaceError.
    """
    if not is_object(location):
        return location, None
    from sqlstream_operators.state.object_clients import store_settings

    check_login(split_location(location)[0])
    return store_settings(location)


def open_table(location: str) -> DeltaTable | None:
    """The table at a resolved path as it is now, None if there is none. Raises what `deltalake` does."""
    library = deltalake()
    place, options = place_and_options(location)
    try:
        table: Any = library.DeltaTable(place, storage_options=options)
    except library.exceptions.TableNotFoundError:
        return None
    return table  # type: ignore[no-any-return]  # it was imported by name


def attempt(place: str, work: Callable[[], _T], *, done: str) -> _T:
    """Do something that may be done twice, again after the store has failed; `done` is what it does to the table.

    Raises DiagnosticError (ENV006) if it goes on failing.
    """
    library = deltalake()
    for number in range(ATTEMPTS):
        try:
            return work()
        except (library.exceptions.DeltaError, OSError) as error:
            if number + 1 < ATTEMPTS:
                time.sleep(PAUSE_S * (1 + number))
                continue
            text = without_signatures(_COLOURS.sub("", str(error)).strip())
            what = text.splitlines() or [type(error).__name__]
            reason = ", ".join(line.strip(" \u21b3") for line in what[:_LINES])
            lacks = missing_place(text)
            reason = reason if lacks is None else f"there is no such {lacks}"
            raise unusable(place, reason, done=done) from error
    raise InternalError("a last attempt neither succeeds nor fails")
