"""Why a column is no event time though its table has one: what on its way here does not keep it, and what does."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.logical import Aggregate, Field, Node, Project, Scan, SetOperation


@dataclass(frozen=True, slots=True)
class LostTime:
    """What a column is behind (`DISTINCT`), a note that says why that is no event time, and what to write."""

    behind: str
    note: str
    help: str


def lost_time(node: Node, f: Field) -> LostTime | None:
    """Where the event time that the column `f` of `node` was made of was lost; None if it was made of none, or by a JOIN."""
    match node:
        case Project():
            item = next((e for own, e in zip(node.fields, node.items, strict=True) if own.id == f.id), None)
            bare = item.unnest() if item is not None else None
            below = _field(node.input, bare.name) if isinstance(bare, exp.Column) else None
            if below is not None and below.time is None:
                return lost_time(node.input, below)
            read = [_field(node.input, c.name) for c in item.find_all(exp.Column)] if item is not None else []
            times = [known.name for known in read if known is not None and known.time is not None]
            if below is not None or not times:
                return None
            return LostTime(
                "an expression",
                f"`{f.name}` is computed of `{times[0]}`, and only a column as it is stays an event time",
                f"select `{times[0]}` as it is; or compute it in CREATE TABLE, event_time AS …, and write WATERMARK FOR "
                "event_time there",
            )
        case Aggregate():
            return _of_groups(node, f)
        case SetOperation() if node.is_union_all:
            position = [own.id for own in node.fields].index(f.id)
            branches = [(branch, branch.fields[position]) for branch in node.branches]
            without = [(branch, own) for branch, own in branches if own.time is None]
            if len(without) == len(branches) or not without:
                found = (lost_time(branch, own) for branch, own in branches)
                return next((lost for lost in found if lost is not None), None)
            [(branch, own), *_] = without
            source = f" of `{branch.source.name}`" if isinstance(branch, Scan) else ""
            return lost_time(branch, own) or LostTime(
                "UNION ALL",
                f"the column `{own.name}`{source} in one of its queries is no event time",
                f"add `WATERMARK FOR {own.name} AS {own.name} - INTERVAL '5' SECOND` to the CREATE TABLE of that one",
            )
        case SetOperation():
            return LostTime(
                node.operator.value,
                "whether a row is in the result is known by no watermark",
                "use the window below it: SELECT window_start, … FROM TABLE(…) GROUP BY window_start, window_end, …",
            )
    held = [below for i in node.inputs if (below := _field(i, f.id)) is not None]
    return lost_time(next(i for i in node.inputs if _field(i, f.id)), held[0]) if held else None


def _of_groups(node: Aggregate, f: Field) -> LostTime | None:
    below = {
        c.name
        for e in (*node.key_expressions, *(a for c in node.calls for a in c.arguments))
        for c in e.find_all(exp.Column)
    }
    times = [known for known in node.input.fields if known.id in below and known.time is not None]
    if not times:
        pairs = zip(node.keys, node.key_expressions, strict=True)
        key = next((e for own, e in pairs if own.id == f.id), None)
        inner = _field(node.input, key.name) if isinstance(key, exp.Column) else None
        return lost_time(node.input, inner) if inner is not None else None
    if node.calls:
        return LostTime(
            "GROUP BY",
            "a group changes whenever a row of it comes, however old that is",
            "group by a window before: SELECT window_start, window_end, window_time, … FROM TABLE(…) GROUP BY window_start, "
            "window_end, window_time",
        )
    names = ", ".join(own.name for own in node.keys)
    union = isinstance(node.input, SetOperation)
    return LostTime(
        "UNION" if union else "DISTINCT",
        "a row is given once, whenever the first of its copies comes",
        "write UNION ALL, which keeps it"
        if union
        else f"the first of its copies keeps it: SELECT {names} FROM … QUALIFY ROW_NUMBER() OVER (PARTITION BY {names} "
        "ORDER BY PROCTIME()) = 1",
    )


def _field(node: Node, id_: str) -> Field | None:
    return next((f for f in node.fields if f.id == id_), None)
