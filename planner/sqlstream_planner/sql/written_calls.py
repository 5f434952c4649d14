"""One form for every call: its name as written and its arguments in order.

Our dialect reads nearly every call as `exp.Anonymous`; other dialects of sqlglot (and a few forms of ours)
give calls a class of their own. Here each is its name and arguments again, as the user wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from sqlstream_planner.sql.dialect import SqlStream


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call: lower-case name, arguments, and what stood inside its parentheses besides them."""

    name: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    order: exp.Order | None = None


# Nodes of forms with their own grammar (`SUBSTRING(x FROM 1)` …): DuckDB name, argument keys.
_FORMS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.Ceil: ("ceil", ("this", "decimals")),
    exp.Floor: ("floor", ("this", "decimals")),
    exp.Chr: ("chr", ("expressions",)),
    exp.Initcap: ("initcap", ("this", "expression")),
    exp.Max: ("max", ("this", "expressions")),
    exp.Min: ("min", ("this", "expressions")),
    exp.ArgMax: ("arg_max", ("this", "expression", "count")),
    exp.ArgMin: ("arg_min", ("this", "expression", "count")),
    exp.PercentileCont: ("quantile_cont", ("this", "expression")),
    exp.PercentileDisc: ("quantile_disc", ("this", "expression")),
    exp.Quantile: ("quantile", ("this", "quantile")),
    exp.ApproxQuantile: ("approx_quantile", ("this", "quantile")),
    exp.GroupConcat: ("string_agg", ("this", "separator")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.Map: ("map", ("keys", "values")),
    exp.FirstValue: ("first_value", ("this",)),
    exp.LastValue: ("last_value", ("this",)),
    exp.NthValue: ("nth_value", ("this", "offset")),
    exp.Lead: ("lead", ("this", "offset", "default")),
    exp.Lag: ("lag", ("this", "offset", "default")),
    exp.Explode: ("unnest", ("this",)),
    exp.Unnest: ("unnest", ("expressions",)),
    exp.Count: ("count", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.CurrentTimestamp: ("current_timestamp", ()),
    exp.CurrentDate: ("current_date", ()),
    exp.CurrentTime: ("current_time", ()),
    exp.Localtime: ("localtime", ()),
    exp.Localtimestamp: ("localtimestamp", ()),
    exp.CurrentUser: ("current_user", ()),
}
_TRIM = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def written_call(node: exp.Expr) -> WrittenCall | None:
    """The call that `node` is, None if it is not one.

    >>> written_call(sqlglot.parse_one("SUBSTRING(x FROM 2)", dialect="duckdb")).name
    'substring'
    """
    if isinstance(node, exp.Anonymous):
        return _unwrap(str(node.this).lower(), node.expressions)
    if isinstance(node, exp.Trim):
        name = _TRIM[str(node.args.get("position") or "BOTH").upper()]
        return _unwrap(name, _values(node, ("this", "expression")))
    if isinstance(node, exp.JSONObject):
        pairs = [e for p in node.expressions for e in (p.this, p.expression)]
        return _unwrap("json_object", pairs)
    form = _FORMS.get(type(node))
    if form is not None:
        if isinstance(node, exp.Ceil | exp.Floor) and node.args.get("to") is not None:
            return None
        return _unwrap(form[0], _values(node, form[1]))
    if isinstance(node, exp.Func) and not isinstance(node, _NOT_CALLS):
        written = neutral(node)
        return written_call(written) if isinstance(written, exp.Anonymous) else None
    return None


_NOT_CALLS = (
    exp.Exists,
    exp.Cast,
    exp.Case,
    exp.If,
    exp.Array,
    exp.Struct,
    exp.ToMap,
    exp.Extract,
    exp.Connector,
    exp.JSONExtract,
    exp.JSONExtractScalar,
    exp.RegexpLike,
)


def neutral(node: exp.Expr) -> exp.Expr:
    """The same SQL with every call as it would be written for DuckDB, the node's place kept."""
    parsed = sqlglot.parse_one(node.sql(dialect=SqlStream), dialect=SqlStream)
    parsed.meta.update(node.meta)
    return parsed


def _values(node: exp.Expr, keys: tuple[str, ...]) -> list[exp.Expr]:
    values: list[exp.Expr] = []
    for key in keys:
        value = node.args.get(key)
        if isinstance(value, list):
            values.extend(value)
        elif value is not None:
            values.append(value)
    return values


def _unwrap(name: str, arguments: list[exp.Expr]) -> WrittenCall:
    distinct, order = False, None
    plain: list[exp.Expr] = []
    for argument in arguments:
        inner = argument
        if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
            inner = inner.this
        if isinstance(inner, exp.Order):
            order, inner = inner, inner.this
            if inner is None:  # RANK(ORDER BY x)
                continue
        if isinstance(inner, exp.Distinct):
            distinct = True
            plain.extend(inner.expressions)
            continue
        plain.append(inner)
    return WrittenCall(name, tuple(plain), distinct, order)
