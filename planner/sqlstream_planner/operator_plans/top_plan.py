"""Operator specs, state schemas and partial SQL of Top-N, deduplication and normalised changelogs."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    FirstRowSpec,
    Ordering,
    TopNSpec,
    WindowTopNSpec,
)
from sqlstream_operators.plan.schema import KIND_COLUMN, SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable, disambiguated
from sqlstream_operators.plan.types import BIGINT, BLOB, VARCHAR
from sqlstream_planner.block import Block, weight
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.fingerprint import Provenance, digest
from sqlstream_planner.logical import Fields, KeepFirst, Normalize, TopN, sql
from sqlstream_planner.operator_plans.top_filter import Keep

#: Up to so many rows of a key are one value of the state.
SHORT_LIST = 100


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """An operator over whole rows: `input_schema` is what its exchange ships."""

    spec: TopNSpec | DeduplicateSpec | WindowTopNSpec | ChangelogNormalizeSpec | FirstRowSpec
    input_schema: Schema
    columns: tuple[str, ...]
    keep: Keep | None = None
    window_end: str | None = None

    def partial_sql(self, block: Block) -> str:
        """The rows of a block as the operator takes them; for append-only input only those that can matter."""
        items = [(sql(block.columns[id_]), id_) for id_ in self.columns]
        for c in self.input_schema:
            if c.name == WEIGHT_COLUMN:
                items.append((f"CAST({sql(weight(block))} AS BIGINT)", WEIGHT_COLUMN))
            elif c.name == KIND_COLUMN:
                # Rows that only come: each takes the place of the one before.
                kind = sql(block.columns[KIND_COLUMN]) if KIND_COLUMN in block.columns else "'+U'"
                items.append((kind, KIND_COLUMN))
        if self.window_end is not None:
            items.append((f"epoch_us({sql(block.columns[self.window_end])})", SLICE_COLUMN))
        text = block.select(items)
        return text if self.keep is None else self.keep.sql(text)


def plan_top(node: TopN, provenance: Provenance, *, retracting: bool) -> RowsPlan:
    """Top-N, or deduplication where the first row by an order is wanted of rows that stay."""
    inside = provenance.columns(node.input)
    chosen = set(node.ties or ())
    fields = tuple(f for f in node.input.fields if f.id in chosen)
    by_id = {f.id: f for f in fields}
    columns = tuple(Column(f.id, f.type, f.nullable) for f in fields)
    key = disambiguated([StateField(id_, by_id[id_].type, inside[id_]) for id_ in node.partition])
    state_key = {f.name for f in key}
    value = disambiguated([StateField(f.id, f.type, inside[f.id]) for f in fields if f.id not in state_key])
    order = tuple(Ordering(t.column, t.descending, t.nulls_first) for t in node.order)
    state_id = digest(provenance.relation(node) + "".join(sorted(inside[f.id] for f in fields)))
    shown = ", ".join(by_id[id_].name for id_ in node.partition)
    last = node.offset + node.limit
    what = f"first {last}{f' by {shown}' if shown else ''}"
    output = tuple(Column(f.id, f.type, f.nullable) for f in node.fields if f.id in chosen)
    if node.rank is not None:
        output = (*output, Column(node.rank.id, BIGINT, False))
    partition = tuple(f.name for f in key)
    first_only = node.limit == 1 and node.offset == 0 and node.function == "row_number" and node.rank is None
    if first_only and not retracting and node.partition and node.order and node.window_end is None:
        table = StateTable.of("row", "key", key=key, value=value)
        spec = DeduplicateSpec(
            StateSchema(state_id, "deduplicate", f"first row by {shown}", (table,)),
            columns,
            partition,
            order,
            output,
        )
        return RowsPlan(spec, columns, tuple(f.id for f in fields), _keep(node, fields, 1))
    ids = tuple(f.id for f in fields)
    rank = node.rank.id if node.rank is not None else None
    ranked = (columns, partition, order, node.function, node.limit, node.offset, rank)
    keep = _keep(node, fields, last)
    if node.function == "row_number" and last <= SHORT_LIST and not retracting and node.window_end is None:
        # What can be wanted of a key is little, and is read and written together.
        listed = StateTable.of("rows", "list", key=key, value=value)
        top = TopNSpec(StateSchema(state_id, "top_n", what, (listed,)), *ranked, output, retracting)
        return RowsPlan(top, columns, ids, keep)
    sub_key = [
        StateField("sort", BLOB, f"0 order {provenance.order(node)}"),
        StateField("row", BLOB, "1 row"),
    ]
    count = StateField("count", BIGINT, "0 count")
    table = StateTable.of(
        "rows", "time" if node.window_end else "key", key=key, sub_key=sub_key, value=[count, *value]
    )
    state = StateSchema(state_id, "window_top_n" if node.window_end else "top_n", what, (table,))
    if node.window_end is not None:
        if node.time is None or retracting:
            raise InternalError("a window's Top-N needs a watermark and rows that stay")
        windowed = WindowTopNSpec(state, *ranked, output, node.time.sources, node.time.tick_us)
        return RowsPlan(windowed, (Column(SLICE_COLUMN, BIGINT), *columns), ids, window_end=node.window_end)
    top = TopNSpec(state, *ranked, output, retracting)
    if retracting:
        return RowsPlan(top, (*columns, Column(WEIGHT_COLUMN, BIGINT, False)), ids)
    return RowsPlan(top, columns, ids, keep if node.function == "row_number" else None)


def plan_normalize(node: Normalize, provenance: Provenance) -> RowsPlan:
    """A changelog with a primary key, made consistent."""
    inside = provenance.columns(node.input)
    fields = node.input.fields
    key = disambiguated([StateField(f.id, f.type, inside[f.id]) for f in fields if f.id in node.keys])
    value = disambiguated([StateField(f.id, f.type, inside[f.id]) for f in fields if f.id not in node.keys])
    table = StateTable.of("row", "key", key=key, value=value)
    columns = tuple(Column(f.id, f.type, f.nullable) for f in fields)
    state_id = digest(provenance.relation(node) + "".join(sorted(f.fingerprint for f in value)))
    names = ", ".join(f.name for f in fields if f.id in node.keys)
    state = StateSchema(state_id, "changelog_normalize", f"the row of each {names}", (table,))
    spec = ChangelogNormalizeSpec(state, tuple(f.name for f in table.key), columns, columns)
    return RowsPlan(spec, (*columns, Column(KIND_COLUMN, VARCHAR, False)), tuple(f.id for f in fields))


def plan_keep_first(node: KeepFirst, provenance: Provenance) -> RowsPlan:
    """The first row that comes of each key."""
    inside = provenance.columns(node.input)
    fields = node.input.fields
    key = disambiguated([StateField(f.id, f.type, inside[f.id]) for f in fields if f.id in node.keys])
    table = StateTable.of("row", "key", key=key)
    columns = tuple(Column(f.id, f.type, f.nullable) for f in fields)
    names = ", ".join(f.name for f in fields if f.id in node.keys)
    state = StateSchema(digest(provenance.relation(node)), "first_row", f"each {names} that came", (table,))
    spec = FirstRowSpec(state, tuple(f.name for f in table.key), columns, columns)
    return RowsPlan(spec, columns, tuple(f.id for f in fields))


def _keep(node: TopN, fields: Fields, limit: int) -> Keep:
    return Keep(node.partition, tuple(node.order), fields, limit)
