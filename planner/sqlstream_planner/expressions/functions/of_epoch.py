"""Functions that an epoch answers: of its clock, and of random bits that it gives to each row."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.sql.written_calls import WrittenCall

#: What CURRENT_DATE and others are of the wall clock of the session, `{local}`, and of the instant, `{clock}`.
_OF_CLOCK: Mapping[str, str] = {
    **dict.fromkeys(
        ("now", "current_timestamp", "get_current_timestamp", "transaction_timestamp", "statement_timestamp"),
        "{clock}",
    ),
    **dict.fromkeys(("proctime", "current_row_timestamp"), "{clock}"),
    **dict.fromkeys(("localtimestamp", "current_localtimestamp"), "{local}"),
    **dict.fromkeys(("current_date", "today", "curdate"), "CAST({local} AS DATE)"),
    **dict.fromkeys(
        ("current_time", "get_current_time", "localtime", "current_localtime"), "CAST({local} AS TIME)"
    ),
    "unix_timestamp": "CAST(floor(epoch({clock})) AS BIGINT)",
    "unix_timestamp_now": "CAST(floor(epoch({clock})) AS BIGINT)",
}
#: Flink's may say how many digits of the second they give.
_PRECISE = frozenset({"current_timestamp", "localtimestamp", "current_time", "localtime", "now"})
#: A number from 0 to 1 of the 32 hexadecimal digits `{bits}`, with as many bits as a DOUBLE has.
_SHARE = "(CAST(md5_number_lower({bits}) >> 11 AS DOUBLE) / 9007199254740992.0)"
_UUID = (
    "CAST(substr({bits}, 1, 8) || '-' || substr({bits}, 9, 4) || '-4' || substr({bits}, 14, 3) || '-' || "
    "substr('89ab', 1 + CAST(instr('0123456789abcdef', substr({bits}, 17, 1)) AS INTEGER) % 4, 1) || "
    "substr({bits}, 18, 3) || '-' || substr({bits}, 21, 12) AS UUID)"
)
#: Its first 48 bits are the clock's milliseconds.
_UUID7 = (
    "CAST(left(lpad(to_hex(epoch_ms({clock})), 12, '0'), 8) || '-' || "
    "right(lpad(to_hex(epoch_ms({clock})), 12, '0'), 4) || '-7' || substr({bits}, 14, 3) || '-' || "
    "substr('89ab', 1 + CAST(instr('0123456789abcdef', substr({bits}, 17, 1)) AS INTEGER) % 4, 1) || "
    "substr({bits}, 18, 3) || '-' || substr({bits}, 21, 12) AS UUID)"
)
#: By its name and number of arguments, what a call gives of its random bits; `{0}` is its first argument.
OF_RANDOM: Mapping[tuple[str, int], str] = {
    ("random", 0): _SHARE,
    ("rand", 0): _SHARE,
    ("rand", 1): _SHARE,
    ("rand_integer", 1): f"CAST(floor({_SHARE} * ({{0}})) AS INTEGER)",
    ("rand_integer", 2): f"CAST(floor({_SHARE} * ({{1}})) AS INTEGER)",
    **dict.fromkeys((("uuid", 0), ("gen_random_uuid", 0), ("uuidv4", 0)), _UUID),
    ("uuidv7", 0): _UUID7,
}
#: Of those with a seed, which argument it is: the last ones are counted by `OF_RANDOM`.
SEEDED = frozenset({("rand", 1), ("rand_integer", 2)})

CLOCK_NAMES = tuple(sorted({*_OF_CLOCK, "age", "ago"}))
"""Functions of the epoch's clock."""
RANDOM_NAMES = tuple(sorted({name for name, _ in OF_RANDOM}))
"""Functions that give each row a random value."""


def of_clock(call: WrittenCall) -> str | None:
    """What a call of the clock is, over `{clock}`, the instant, and `{local}`, the session's wall clock; else None."""
    given = len(call.arguments)
    if call.name == "age" and given == 1:
        return "age(CAST(CAST({local} AS DATE) AS TIMESTAMP), {0})"
    if call.name == "ago" and given == 1:
        return "({clock} - CAST({0} AS INTERVAL))"
    text = _OF_CLOCK.get(call.name)
    if text is None or not given:
        return text
    digits = call.arguments[0].name if isinstance(call.arguments[0], exp.Literal) else ""
    if call.name not in _PRECISE or given > 1 or not (digits.isdigit() and int(digits) <= 6):
        return None
    return text if int(digits) == 6 else _cut(text, int(digits))


def _cut(text: str, digits: int) -> str:
    """A time with so many digits of its seconds."""
    if text.endswith("AS TIME)"):
        return f"CAST(substring(CAST({text} AS VARCHAR), 1, {8 + (digits + 1 if digits else 0)}) AS TIME)"
    if digits in (0, 3):
        return f"date_trunc('{'second' if digits == 0 else 'millisecond'}', {text})"
    type_ = "TIMESTAMPTZ" if text == "{clock}" else "TIMESTAMP"
    width = f"INTERVAL '{10 ** (6 - digits)}' MICROSECOND"
    return f"time_bucket({width}, {text}, CAST('0001-01-01 00:00:00' AS {type_}))"
