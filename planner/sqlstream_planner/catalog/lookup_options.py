"""The options that say how old what a lookup join finds may be; named as Flink names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.catalog.descriptor import Settings
    from sqlstream_planner.sql.statements import CreateTable

_CACHE = "lookup.cache"
_RELOAD = "lookup.full-cache.periodic-reload.interval"
_EXPIRE = "lookup.partial-cache.expire-after-write"
#: By what the cache is: the option that says how old a copy may be.
_INTERVALS = {"FULL": _RELOAD, "PARTIAL": _EXPIRE}


def _option(name: str, kind: ValueKind, description: str, **more: object) -> OptionDef:
    # They decide when a table is looked at again, not what is in it.
    return OptionDef(
        name,
        kind,
        description,
        roles=(Role.SOURCE,),
        changes_rows=False,
        changes_output=False,
        **more,  # type: ignore[arg-type]
    )


LOOKUP_OPTIONS = (
    _option(
        _CACHE,
        ValueKind.ENUM,
        "lookup joins: NONE looks at the table in each epoch, FULL and PARTIAL once in an interval",
        default="NONE",
        choices=("NONE", "PARTIAL", "FULL"),
    ),
    _option(_RELOAD, ValueKind.DURATION, "with FULL: look at the table again after so long", minimum=1),
    _option(_EXPIRE, ValueKind.DURATION, "with PARTIAL: look at the table again after so long", minimum=1),
    _option(
        "lookup.full-cache.reload-strategy",
        ValueKind.ENUM,
        "accepted: at intervals",
        default="PERIODIC",
        choices=("PERIODIC",),
    ),
    _option("lookup.partial-cache.max-rows", ValueKind.INTEGER, "accepted: all rows are kept", minimum=1),
    _option(
        "lookup.partial-cache.cache-missing-key",
        ValueKind.BOOLEAN,
        "accepted: all rows are kept",
        default="true",
    ),
    _option(
        "lookup.max-retries", ValueKind.INTEGER, "accepted: the restart strategy says", default="3", minimum=0
    ),
)


def reload_us(settings: Settings) -> int:
    """How old what a lookup join finds may be, µs; 0: as it is when the epoch is planned."""
    found = settings.get(_INTERVALS.get(str(settings.get(_CACHE)), ""))
    return found if isinstance(found, int) else 0


def wrong_lookup(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """OPT004 for a cache without its interval, OPT003 for an interval without its cache."""
    cache = str(settings.get(_CACHE))
    for option in table.options:
        wanted = next((kind for kind, name in _INTERVALS.items() if name == option.key), cache)
        if wanted != cache:
            yield Diagnostic(
                "OPT003",
                f"`{option.key}` says nothing with '{_CACHE}' = '{cache}'",
                option.key_span,
                help=f"add '{_CACHE}' = '{wanted}'",
            )
        if option.key == _CACHE and cache in _INTERVALS and _INTERVALS[cache] not in settings:
            yield Diagnostic(
                "OPT004",
                f"'{_CACHE}' = '{cache}' needs the option `{_INTERVALS[cache]}`",
                option.value_span,
                help=f"add '{_INTERVALS[cache]}' = '10 min'",
            )
