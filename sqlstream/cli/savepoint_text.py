"""What `sqlstream savepoint list` and `show` print of a savepoint: plain data, and lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlstream.cli.figures import size
from sqlstream.runtime.loop.epoch import shown_watermark
from sqlstream.runtime.loop.recovery import physical_plan
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import StateVersions
from sqlstream.storage.savepoints import Savepoint
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.explain.meaning import field_meaning, field_meanings
from sqlstream_planner.text.masking import without_password

_EPOCH_0 = datetime(1970, 1, 1, tzinfo=UTC)


def about(savepoint: Savepoint) -> dict[str, Any]:
    """Its name, when it was made (ISO 8601, UTC), its epoch, and the rows and bytes of all its state."""
    states = savepoint.manifest.states
    return {
        "name": savepoint.name,
        "created": savepoint.created,
        "epoch": savepoint.manifest.epoch,
        "rows": sum(state.rows for state in states),
        "bytes": sum(state.bytes for state in states),
    }


def savepoint_lines(savepoints: Sequence[Savepoint]) -> Iterable[str]:
    """A line a savepoint, in columns."""
    width = max(len(s.name) for s in savepoints)
    for found in map(about, savepoints):
        yield (
            f"{found['name']:{width}}  {found['created']}  epoch {found['epoch']:,}  "
            f"{counted(found['rows'], 'row')} of state, {size(found['bytes'])}"
        )


def details(store: CheckpointStore, savepoint: Savepoint) -> dict[str, Any]:
    """All of it: what `about` has, the query, the sources and their positions, the states and their schemas.

    Watermarks are ISO 8601 (UTC), None where nothing with a time was read, "end" where all input is. Raises DiagnosticError
    (STA001) if the plan or the query is damaged.
    """
    journal, manifest = Journal(store), savepoint.manifest
    schemas = {state.state_id: state for state in physical_plan(journal, manifest).states}
    return {
        **about(savepoint),
        "state_dir": without_password(store.uri),
        "parallelism": manifest.parallelism,
        "max_parallelism": manifest.max_parallelism,
        "query": None if manifest.sql_digest is None else journal.sql(manifest.sql_digest),
        "sources": [
            {
                "name": source.name,
                "connector": source.connector,
                "position": dict(source.position),
                "watermark": _time(source.applied),
            }
            for source in manifest.sources
        ],
        "states": [_state(state, schemas[state.state_id]) for state in manifest.states],
    }


def details_text(found: Mapping[str, Any]) -> str:
    """What `details` gives, for people."""
    lines = [
        f"savepoint {found['name']}: epoch {found['epoch']:,} of {found['state_dir']}, made {found['created']}",
        "",
        "query",
        *(f"  {line}" for line in (found["query"] or "it was not kept").strip().split("\n")),
        "",
        "sources",
    ]
    for source in found["sources"]:
        position = ", ".join(f"{key} {value}" for key, value in source["position"].items())
        watermark = {None: "no watermark yet", "end": "read to the end"}.get(
            source["watermark"], f"watermark {source['watermark']}"
        )
        lines.append(f"  {source['name']} ({source['connector']}): {position}; {watermark}")
    lines += ["", f"state, in {counted(found['parallelism'], 'shard')}"]
    for state in found["states"]:
        kept = f"{counted(state['rows'], 'row')}, {size(state['bytes'])}"
        lines.append(f"  {state['description']} ({state['operator']}): {kept}")
        for table in state["tables"]:
            lines.append(f"    {table['name']}")
            for field in table["fields"]:
                lines.append(f"      {field['part']} {field['name']} {field['type']}: {field['meaning']}")
    if not found["states"]:
        lines.append("  none: every row is done with when its epoch is")
    return "\n".join(lines)


def _state(state: StateVersions, schema: StateSchema) -> dict[str, Any]:
    meanings = field_meanings(schema)
    tables = []
    for table in schema.tables:
        fields = []
        for part, found in (("key", table.key), ("sub-key", table.sub_key), ("value", table.value)):
            for field in found:
                meaning = field_meaning(field, meanings)
                fields.append({"part": part, "name": field.name, "type": str(field.type), "meaning": meaning})
        tables.append({"name": table.name, "layout": table.layout, "fields": fields})
    return {
        "id": state.state_id,
        "operator": schema.operator,
        "description": schema.description,
        "rows": state.rows,
        "bytes": state.bytes,
        "tables": tables,
    }


def _time(watermark: int) -> str | None:
    shown = shown_watermark(watermark)
    if not isinstance(shown, int):
        return shown
    try:
        return (_EPOCH_0 + timedelta(microseconds=watermark)).isoformat()
    except OverflowError:
        return f"{watermark} µs since 1970"
