"""docs/functions.md and docs/functions/duckdb.md, written from the tables and from what the type oracle lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.refused import REFUSED
from sqlstream_planner.expressions.functions.translate.table import THEMES

_HEAD = """\
# Functions

After reading this page you can call functions by DuckDB's, Flink's and Spark's names, and know which of
them is meant where they differ. [DuckDB's functions](functions/duckdb.md) lists those called as they are.

```sql
SELECT id, SUBSTRING_INDEX(customer, 'd', 1) AS start, DATE_FORMAT(ordered_at, 'yyyy-MM-dd') AS day,
       IF(amount > 5, 'large', 'small') AS size
FROM orders;
```

Scalar expressions and aggregates are DuckDB's. Names and forms of Flink and Spark are rewritten to them:

| case | meaning | examples |
|---|---|---|
| DuckDB has the call and it means the same in Flink and Spark | it is left alone | UPPER, LPAD, ROUND |
| Flink and Spark agree and DuckDB differs | theirs | CONCAT with a NULL is NULL, LOG(x) is natural, \
DAYOFWEEK counts from Sunday = 1, REGEXP_REPLACE replaces every match |
| Flink and Spark disagree with each other | DuckDB's | GREATEST and LEAST skip NULLs, REGEXP_EXTRACT gives \
the whole match and '' if there is none, SUBSTRING counts from 1 |
| operators, casts, EXTRACT, DATE_PART | DuckDB's | 7 / 2 is 3.5, CAST(2.5 AS INT) rounds (TRUNC(x) cuts), \
a DATE plus an INTERVAL is a TIMESTAMP, in EXTRACT(DOW …) Sunday is 0, CAST(x AS CHAR(2)) does not cut |
| a <=> b | Spark's IS NOT DISTINCT FROM, not a distance of lists | |
| regular expressions | RE2's, without look-around and back-references | |
| times | UTC unless the file sets `table.local-time-zone` ([time zones](sql/time.md#time-zones)) | |
| no exact counterpart | refused with an error, never approximated | |

An argument list such as `(string, index)` names the arguments of the DuckDB form beside it. Arguments are
given by their order, without names. DuckDB takes `lpad(string => s, count => 5, character => '-')`; here a
call may be Flink's or Spark's and become another one, so that a name has no one meaning. Only fields
(`struct_pack(a := 1)`), options of UNNEST (`recursive := true`) and windows have names.
"""
_OF_EPOCH = """
## The clock and random values

These have another value in each epoch, the same when it is replayed, and the same for a retracted row
([the clock](sql/clock.md)).

| call | value |
|---|---|
| `NOW()`, `CURRENT_TIMESTAMP`, `get_current_timestamp()`, `transaction_timestamp()`, \
`CURRENT_ROW_TIMESTAMP()`, `PROCTIME()` | the wall clock when the epoch that reads the row was planned, as \
TIMESTAMP WITH TIME ZONE |
| `LOCALTIMESTAMP` (TIMESTAMP), `CURRENT_DATE`, `today()` (DATE), `LOCALTIME`, `CURRENT_TIME` (TIME; \
DuckDB's has a zone) | the same in the session's time zone |
| `UNIX_TIMESTAMP()` | the seconds since 1970 |
| `AGE(ts)` | the time from `ts` to midnight of CURRENT_DATE |
| `ago(interval)` | so long before NOW() |
| `RANDOM()`, `RAND()`, `RAND(seed)` | DOUBLEs from 0 to 1, others for each row and each call; calls with \
one seed give the same |
| `RAND_INTEGER(n)`, `RAND_INTEGER(seed, n)` | whole numbers from 0 to n - 1 |
| `UUID()`, `gen_random_uuid()`, `uuidv4()`, `uuidv7()` | UUIDs; `uuidv7()` begins with the clock |

CURRENT_TIMESTAMP(3) and others with a precision cut off the other digits.
"""
_DUCKDB = """\
# DuckDB's functions

After reading this page you know which of DuckDB's functions can be called, and why the others are refused.
They mean what DuckDB says; [functions](../functions.md) has the names of Flink and Spark.

```sql
SELECT customer, list_sort(ARRAY_AGG(amount)) AS amounts, max_by(region, amount) AS region
FROM orders GROUP BY customer;
```

## Names
"""
_VOLATILE = """
## Refused because a replay would give another result

After a failure the same rows are computed again; these functions would give another result then. Take the
time from the data (an event-time column), and ids from a hash of the row.
"""
_REFUSED = """
## Refused for other reasons

Every other scalar function of the installed DuckDB can be called, with every signature that it has: DuckDB is
queried for the type of each call. What is of another type, such as UHUGEINT or GEOMETRY, can stand inside an
expression, but no column can hold it.

| why | names |
|---|---|
"""


def functions_page() -> str:
    """The text of docs/functions.md."""
    lines = [_HEAD]
    for theme, translations in THEMES:
        lines += [f"## {theme}", "", "| Call | From | In DuckDB | Meaning |", "|---|---|---|---|"]
        for translation in translations:
            call = f"{translation.name}({', '.join(p.rstrip('_') for p in translation.parameters)})"
            template = translation.template
            for parameter in translation.parameters:
                if parameter.endswith("_"):
                    template = template.replace(parameter, parameter.rstrip("_"))
            lines.append(_row(f"`{call}`", translation.system, f"`{template}`", translation.meaning))
        lines.append("")
    return "\n".join([*lines, _OF_EPOCH.lstrip("\n")])


def duckdb_page(aggregates: Collection[str]) -> str:
    """The text of docs/functions/duckdb.md; `aggregates` are the names of those that can be run."""
    called = [name for name in catalogue.names() if name in aggregates or not catalogue.is_aggregate(name)]
    lines = [
        _DUCKDB,
        *_by_letter(called),
        *_VOLATILE.splitlines(),
        "",
        *_by_letter(catalogue.volatile_names()),
    ]
    lines += _REFUSED.splitlines()
    for refused in REFUSED:
        named = [*sorted(refused.names), *(f"{prefix}…" for prefix in refused.prefixes)]
        lines.append(_row(refused.reason, ", ".join(named)))
    return "\n".join([*lines, ""])


def _by_letter(names: Iterable[str]) -> list[str]:
    """A table of names, one row per first letter."""
    rows = [_row(letter, ", ".join(group)) for letter, group in groupby(sorted(names), key=lambda n: n[0])]
    return ["| | names |", "|---|---|", *rows]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
