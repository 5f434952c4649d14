"""Reading option values as Flink spells them: durations, flags, numbers.

The planner has checked names and values already (it knows the place in the file); what is raised here only
names the option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sqlstream.formats.options import bad_option, flag

__all__ = ["bad_option", "duration_us", "flag", "instant_us", "number", "size_bytes"]

_D = TypeVar("_D")
_UNITS_US = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds", ""), 1_000),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1),
}
_DURATION = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*")


def duration_us(options: Mapping[str, str], name: str) -> int | None:
    """A duration option in µs, None if it is not set; a number without a unit is milliseconds, as in Flink.

    >>> duration_us({"source.monitor-interval": "10 s"}, "source.monitor-interval")
    10000000
    """
    text = options.get(name)
    if text is None:
        return None
    found = _DURATION.fullmatch(text.lower())
    if found is None or found.group(2) not in _UNITS_US:
        raise bad_option(name, text, "a duration like '500 ms', '10 s' or '1 min'")
    return int(found.group(1)) * _UNITS_US[found.group(2)]


_BYTES = re.compile(r"\s*(\d+)\s*([kmgt]?)i?b?(?:ytes)?\s*")


def size_bytes(options: Mapping[str, str], name: str, default: int) -> int:
    """A size in bytes; units are powers of 1024, as in Flink.

    >>> size_bytes({"sink.rolling-policy.file-size": "2 MB"}, "sink.rolling-policy.file-size", 0)
    2097152
    """
    text = options.get(name)
    if text is None:
        return default
    found = _BYTES.fullmatch(text.lower())
    if found is None or int(found.group(1)) == 0:
        raise bad_option(name, text, "a size like '128 mb'")
    return int(found.group(1)) << 10 * " kmgt".index(found.group(2) or " ")


def number(options: Mapping[str, str], name: str, *, minimum: int = 0) -> int | None:
    """A whole number option, None if it is not set.

    >>> number({"number-of-rows": "10"}, "number-of-rows")
    10
    """
    text = options.get(name)
    if text is None:
        return None
    try:
        value = int(text.strip().replace("_", ""))
    except ValueError:
        raise bad_option(name, text, "a whole number") from None
    if value < minimum:
        raise bad_option(name, text, f"a whole number of at least {minimum}")
    return value


def instant_us(options: Mapping[str, str], name: str, default: _D) -> int | _D:
    """A point in time in µs since 1970, as SQL or ISO 8601 writes it; UTC if it has no zone.

    >>> instant_us({"base-time": "1970-01-01 00:00:01"}, "base-time", 0)
    1000000
    """
    text = options.get(name)
    if text is None:
        return default
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise bad_option(name, text, "a time like '2024-01-01 00:00:00'") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
