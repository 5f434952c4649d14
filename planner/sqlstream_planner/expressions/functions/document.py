"""docs/functions.md, written from the tables and from what the type oracle lists."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable

from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.refused import REFUSED
from sqlstream_planner.expressions.functions.translate.table import THEMES

_HEAD = """\
# Functions

Scalar expressions and aggregates are DuckDB's: every name under "DuckDB's functions" can be called and means
what DuckDB says. Names and forms of Flink and Spark are rewritten to them, in the tables that follow.

Rules where systems differ:

- A call that DuckDB has and that means the same in Flink and Spark is left alone (UPPER, LPAD, ROUND …).
- Where Flink and Spark agree and DuckDB differs for the same call, theirs is meant: CONCAT with a NULL is
  NULL, LOG(x) is natural, DAYOFWEEK counts from Sunday = 1, REGEXP_REPLACE replaces every match.
- Where Flink and Spark disagree with each other, DuckDB's meaning is kept: GREATEST and LEAST skip NULLs,
  REGEXP_EXTRACT gives the whole match and '' if there is none, SUBSTRING counts from 1.
- Operators, casts, EXTRACT and DATE_PART are DuckDB's: 7 / 2 is 3.5, CAST(2.5 AS INT) rounds (TRUNC(x) cuts), a DATE
  plus an INTERVAL is a TIMESTAMP, in EXTRACT(DOW …) Sunday is 0, CAST(x AS CHAR(2)) does not cut.
- a <=> b is Spark's IS NOT DISTINCT FROM, not a distance of lists.
- Regular expressions are RE2's, without look-around and back-references.
- All times are UTC unless the file says otherwise: SET 'table.local-time-zone' ([sql.md](sql.md#time-zones)).
- What has no exact counterpart is refused with an error, never approximated.

An argument list such as `(string, index)` names the arguments of the DuckDB form beside it.
"""
_OF_EPOCH = """
## The clock, and random values

These give another value in each epoch, the same when it is replayed, and the same for a row that is taken back
([sql.md](sql.md#now-random-and-their-like)).

- The wall clock when the epoch that reads the row was planned, as TIMESTAMP WITH TIME ZONE: `NOW()`, `CURRENT_TIMESTAMP`,
  `get_current_timestamp()`, `transaction_timestamp()`, `CURRENT_ROW_TIMESTAMP()`, `PROCTIME()`.
- The same in the session's time zone: `LOCALTIMESTAMP` (TIMESTAMP), `CURRENT_DATE`, `today()` (DATE), `LOCALTIME`,
  `CURRENT_TIME` (TIME; DuckDB's has a zone).
- `UNIX_TIMESTAMP()` is the seconds since 1970, `AGE(ts)` the time from `ts` to midnight of CURRENT_DATE, `ago(interval)`
  so long before NOW().
- `RANDOM()`, `RAND()` and `RAND(seed)` are DOUBLEs from 0 to 1, others for each row and each call; calls with one seed give
  the same. `RAND_INTEGER(n)`, `RAND_INTEGER(seed, n)`: whole numbers from 0 to n - 1.
- `UUID()`, `gen_random_uuid()`, `uuidv4()`; `uuidv7()` begins with the clock.

CURRENT_TIMESTAMP(3) and others with a precision cut off the other digits.
"""
_VOLATILE = """
## Refused because a replay would give another answer

After a failure the same rows are computed again; these functions would give another result then. Take the
time from the data (an event-time column), and ids from a hash of the row.
"""
_REFUSED = """
## Refused for other reasons

Every other scalar function of the installed DuckDB can be called, with every signature that it has: DuckDB is asked
for the type of each call. What is of another type, such as UHUGEINT or GEOMETRY, can stand inside an expression, but no
column can hold it.
"""


def functions_page(aggregates: Collection[str]) -> str:
    """The text of docs/functions.md; `aggregates` are the names of those that can be run."""
    lines = [_HEAD]
    for theme, translations in THEMES:
        lines += [f"## {theme}", "", "| Call | From | In DuckDB | Meaning |", "|---|---|---|---|"]
        for translation in translations:
            call = f"{translation.name}({', '.join(p.rstrip('_') for p in translation.parameters)})"
            template = translation.template
            for parameter in translation.parameters:
                if parameter.endswith("_"):
                    template = template.replace(parameter, parameter.rstrip("_"))
            cells = (f"`{call}`", translation.system, f"`{template}`", translation.meaning)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    lines += [_OF_EPOCH.lstrip("\n")]
    lines += [_VOLATILE.lstrip("\n"), _wrapped(catalogue.volatile_names()), ""]
    lines += [_REFUSED.lstrip("\n")]
    for refused in REFUSED:
        named = [*sorted(refused.names), *(f"{prefix}…" for prefix in refused.prefixes)]
        lines += [_wrapped((f"- {refused.reason}: {named[0]}", *named[1:]))]
    lines.append("")
    called = [name for name in catalogue.names() if name in aggregates or not catalogue.is_aggregate(name)]
    lines += ["## DuckDB's functions", "", _wrapped(called), ""]
    return "\n".join(lines)


def _wrapped(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(names), 110, break_long_words=False)
