"""Options as data: what exists, what their values may be, and what a value means."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from sqlstream_planner.diagnostics import Diagnostic, Span, did_you_mean
from sqlstream_planner.text.masking import SECRET_NAME

OptionValue = str | int | float | bool
_N = TypeVar("_N", int, float)


class ValueKind(StrEnum):
    """What an option's text is read as: DURATION gives µs, BYTES a number of bytes, the others themselves.

    PATH is a path, from the pipeline's folder if it is relative, or a URI.
    """

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DURATION = "duration"
    BYTES = "size"
    ENUM = "enum"
    CHARACTER = "character"
    TIMESTAMP = "timestamp"
    PATH = "path"
    ZONE = "time zone"


class Role(StrEnum):
    """What a table is used for."""

    SOURCE = "source"
    SINK = "sink"


BOTH = (Role.SOURCE, Role.SINK)


@dataclass(frozen=True, slots=True)
class OptionDef:
    """One option: its name (`#` in it stands for a column, `*` at its end for anything), what its value is, and whom it
    concerns.

    `default` is text as a user would write it. `choices` belong to ENUM. `minimum` and `maximum` bound
    numbers. `changes_rows`: whether a source with another value can give other rows; only what can't may say so,
    and state and positions are kept when it changes. `changes_output`: whether a sink with another value writes its rows
    elsewhere or in another way; only what can't may say so, and a sink goes on when it changes. `secret`: nobody may see
    the value. `paces`: it says when rows come, so a run that only wants the result leaves it out. `ends`: it gives a
    source an end that else has none. `refuse` says what to write in place of a value that the kind allows and that can't be
    used, `refuse_written` why a table that is written can't have a value; None: nothing is wrong. `only_files`: an option of
    a format that means something where it is in files, not where its records come one by one.
    """

    name: str
    kind: ValueKind
    description: str
    required: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    roles: tuple[Role, ...] = BOTH
    minimum: float | None = None
    maximum: float | None = None
    changes_rows: bool = True
    changes_output: bool = True
    secret: bool = False
    paces: bool = False
    ends: bool = False
    only_files: bool = False
    refuse: Callable[[str], str | None] = lambda text: None
    refuse_written: Callable[[str], str | None] = lambda text: None

    def __post_init__(self) -> None:
        if (self.kind is ValueKind.ENUM) != bool(self.choices):
            raise ValueError(f"{self.name}: choices belong to ENUM")
        if self.required and self.default is not None:
            raise ValueError(f"{self.name}: a required option has no default")
        if self.default is not None:
            self.read(self.default)

    @property
    def is_pattern(self) -> bool:
        """Whether the name has a `#` for a column's name."""
        return "#" in self.name

    @property
    def is_open(self) -> bool:
        """Whether the name has a `*` for whatever a user writes there."""
        return self.name.endswith(".*")

    def hides(self, key: str) -> bool:
        """Whether nobody may see the value of `key`, which names this option.

        >>> OptionDef("properties.*", ValueKind.STRING, "").hides("properties.sasl.password")
        True
        """
        return self.secret or (self.is_open and SECRET_NAME.search(key) is not None)

    def matches(self, key: str) -> bool:
        """Whether `key` names this option.

        >>> OptionDef("fields.#.kind", ValueKind.STRING, "").matches("fields.a.b.kind")
        True
        """
        if self.is_open:
            return key.startswith(self.name[:-1]) and len(key) >= len(self.name)
        if not self.is_pattern:
            return key == self.name
        before, after = self.name.split("#", 1)
        return len(key) > len(before) + len(after) and key.startswith(before) and key.endswith(after)

    def subject(self, key: str) -> str:
        """The column's name in a `key` that matches a pattern."""
        before, after = self.name.split("#", 1)
        return key[len(before) : len(key) - len(after)]

    def read(self, text: str) -> OptionValue:
        """The value that `text` stands for. Raises ValueError saying what is accepted."""
        match self.kind:
            case ValueKind.STRING:
                return text
            case ValueKind.PATH:
                if "\0" in text:
                    raise ValueError("a path: no name has a character of value 0")
                if re.match(r"file://(?!localhost/)[^/]", text):  # what looks like a folder would be a host
                    raise ValueError("a path, or file:/// and an absolute path")
                return text
            case ValueKind.CHARACTER:
                value = text.replace("\\t", "\t")
                if len(value) != 1:
                    raise ValueError("one character, such as ',' or '\\t'")
                return value
            case ValueKind.BOOLEAN:
                if text.strip().lower() not in ("true", "false"):
                    raise ValueError("'true' or 'false'")
                return text.strip().lower() == "true"
            case ValueKind.ENUM:
                found = next((c for c in self.choices if c.lower() == text.strip().lower()), None)
                if found is None:
                    near = did_you_mean(text, self.choices)
                    raise ValueError(
                        (f"'{near}'; it can be " if near else "one of ")
                        + ", ".join(f"'{c}'" for c in self.choices)
                    )
                return found
            case ValueKind.DURATION:
                return self._bounded(parse_duration(text), "a duration")
            case ValueKind.BYTES:
                return self._bounded(parse_bytes(text), "a size")
            case ValueKind.INTEGER:
                try:
                    return self._bounded(int(text.strip()), "a whole number")
                except ValueError:
                    raise ValueError("a whole number" + self._bounds()) from None
            case ValueKind.NUMBER:
                try:
                    return self._bounded(float(text.strip()), "a number")
                except ValueError:
                    raise ValueError("a number" + self._bounds()) from None
            case ValueKind.ZONE:
                return _zone(text.strip())
            case ValueKind.TIMESTAMP:
                try:
                    if _TIMESTAMP.fullmatch(text.strip()) is None:
                        raise ValueError
                    datetime.fromisoformat(text.strip())
                except ValueError:
                    raise ValueError("a UTC time such as '2024-01-01 00:00:00'") from None
                return text.strip()

    def _bounded(self, value: _N, what: str) -> _N:
        low = self.minimum is not None and value < self.minimum
        high = self.maximum is not None and value > self.maximum
        if low or high or value != value:
            raise ValueError(what + self._bounds())
        return value

    def _bounds(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            return f" from {self.minimum:g} to {self.maximum:g}"
        if self.minimum is not None:
            return f", at least {self.minimum:g}"
        return f", at most {self.maximum:g}" if self.maximum is not None else ""


_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?")
_QUANTITY = re.compile(r"\s*(\d+)\s*([A-Za-zµ]*)\s*")
_DURATION_UNITS = {
    1: ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
    1_000: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    1_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000_000: ("h", "hour", "hours"),
    86_400_000_000: ("d", "day", "days"),
}
_BYTE_UNITS = {
    1: ("", "b", "byte", "bytes"),
    1 << 10: ("k", "kb", "kib", "kibibytes"),
    1 << 20: ("m", "mb", "mib", "mebibytes"),
    1 << 30: ("g", "gb", "gib", "gibibytes"),
    1 << 40: ("t", "tb", "tib", "tebibytes"),
}


_UTC = ("utc", "etc/utc", "gmt", "z", "uct", "zulu", "universal", "etc/gmt")


def _zone(text: str) -> str:
    """A time zone by its name as the zone database spells it; UTC for all names of it. Raises ValueError.

    >>> _zone("europe/berlin"), _zone("Z")
    ('Europe/Berlin', 'UTC')
    """
    if text.lower() in _UTC:
        return "UTC"
    known = {name.lower(): name for name in zoneinfo.available_timezones()}
    found = known.get(text.lower())
    if found is None:
        near = did_you_mean(text, sorted(known.values()))
        raise ValueError(
            (f"'{near}', or another" if near else "the") + " name of a zone, such as 'Europe/Berlin' or 'UTC'"
        )
    return found


def parse_duration(text: str) -> int:
    """A duration in µs; without a unit it is milliseconds, as in Flink. Raises ValueError.

    >>> parse_duration("10 s"), parse_duration("500ms"), parse_duration("1 min")
    (10000000, 500000, 60000000)
    """
    return _quantity(text, _DURATION_UNITS, "a duration such as '10 s', '500 ms' or '1 min'")


def parse_bytes(text: str) -> int:
    """A size in bytes; units are powers of 1024, as in Flink. Raises ValueError.

    >>> parse_bytes("64 mb"), parse_bytes("10")
    (67108864, 10)
    """
    return _quantity(text, _BYTE_UNITS, "a size such as '64 mb' or '1 gb'")


def _quantity(text: str, units: Mapping[int, tuple[str, ...]], accepted: str) -> int:
    found = _QUANTITY.fullmatch(text)
    if found is not None:
        for size, names in units.items():
            if found.group(2).lower() in names:
                return int(found.group(1)) * size
    raise ValueError(accepted)


def find_option(options: Iterable[OptionDef], key: str) -> OptionDef | None:
    """The option that `key` names, exact names before patterns."""
    patterns = []
    for option in options:
        if option.name == key:
            return option
        if (option.is_pattern or option.is_open) and option.matches(key):
            patterns.append(option)
    return max(patterns, key=lambda o: len(o.name), default=None)


def unknown_option(
    code: str, what: str, key: str, options: Sequence[OptionDef], span: Span | None
) -> Diagnostic:
    """The diagnostic for a `key` that no option has: the nearest one, and all that exist."""
    names = [o.name for o in options]
    near = did_you_mean(key, names)
    return Diagnostic(
        code,
        f"{what} has no option `{key}`",
        span,
        ("options: " + ", ".join(sorted(names)),),
        f"did you mean '{near}'?" if near else None,
    )


def wrong_value(code: str, key: str, text: str, accepted: str, span: Span | None) -> Diagnostic:
    """The diagnostic for a value that an option does not take."""
    return Diagnostic(code, f"`{key}` can't be '{text}'", span, (), f"write {accepted}")


def refused_when_written(options: Iterable[OptionDef], given: Mapping[str, str]) -> Diagnostic | None:
    """What is wrong with the values that a table which is written has; None: nothing is."""
    for option in options:
        text = given.get(option.name)
        why = None if text is None else option.refuse_written(text)
        if why is not None:
            return Diagnostic(
                "OPT003",
                f"option '{option.name}' is '{text}', which a table that is written can't have",
                notes=(why,),
                help="leave the option out",
            )
    return None
