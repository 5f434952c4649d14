"""What `sqlstream state list` and `show` print: plain data, and lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlstream.cli.figures import size
from sqlstream.state.check import check_files
from sqlstream.state.committed import Committed
from sqlstream.state.relations import Relation, relations_of
from sqlstream.storage.manifest import StateVersions
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted, suggestion


def listed(committed: Committed) -> Iterator[dict[str, Any]]:
    """Each relation: its name, what it is, its operator in words, the columns, and rows and bytes of the whole state."""
    states = {state.state_id: state for state in committed.manifest.states}
    for relation in relations_of(committed.plan):
        shards = _shards(states.get(relation.spec.state.state_id))
        yield {
            "name": str(relation),
            "kind": relation.kind,
            "operator": relation.spec.kind,
            "description": relation.spec.state.description,
            "columns": [column.name for column in relation.columns],
            "rows": sum(shard.rows for shard in shards),
            "bytes": sum(shard.bytes for shard in shards),
        }


def list_lines(committed: Committed) -> Iterator[str]:
    """The relations, each operator's under what it is and how much it keeps."""
    yield committed.title
    before = None
    found = list(listed(committed))
    width = max((len(one["name"]) for one in found), default=0)
    for one in found:
        step = one["name"].partition(".")[0]
        if step != before:
            yield ""
            kept = f"{counted(one['rows'], 'row')}, {size(one['bytes'])}"
            yield f"{one['description'] or one['operator']} ({one['operator']}): {kept}"
            before = step
        yield f"  {one['name']:{width}}  {one['kind']:<12}  {', '.join(one['columns'])}"
    if not found:
        yield "no operator of this query keeps state: every row is done with when its epoch is"


def check_lines(committed: Committed) -> Iterator[str]:
    """What was compared, and what is damaged and heals. Raises DiagnosticError (STA003) with every other damaged file."""
    store = committed.store
    checked = check_files(committed)
    for one in checked.healing:
        yield f"{store.path(one.name)} {one.what}: it does no harm, {one.heals}"
    checked.raise_damaged(store)
    yield committed.title
    yield (
        f"{counted(len(checked.files), 'file')} of state, {size(sum(file.bytes for file in checked.files))}, the plan and "
        "the lists of files: all are what was written"
    )


def details(committed: Committed, name: str) -> dict[str, Any]:
    """All about one relation. Raises DiagnosticError (STA024) if there is none of this name."""
    relation = _find(committed, name)
    state = relation.spec.state
    versions = next((s for s in committed.manifest.states if s.state_id == state.state_id), None)
    ids = _field_ids(relation, versions)
    return {
        "name": str(relation),
        "of": committed.title,
        "kind": relation.kind,
        "operator": relation.spec.kind,
        "description": state.description,
        "state": state.state_id,
        "key": list(relation.key.values()),
        "columns": [
            {
                "name": column.name,
                "type": str(column.type),
                "part": column.part,
                "field": ids.get((column.part, column.source)),
                "meaning": column.meaning,
            }
            for column in relation.columns
        ],
        "shards": [{"rows": shard.rows, "bytes": shard.bytes} for shard in _shards(versions)],
    }


def details_text(found: Mapping[str, Any]) -> str:
    """What `details` gives, for people."""
    rows, number = (sum(shard[what] for shard in found["shards"]) for what in ("rows", "bytes"))
    lines = [
        f"{found['name']}: {found['kind']} of {found['description'] or found['operator']} ({found['operator']})",
        f"in {found['of']}",
        "",
        "columns",
    ]
    width = max(len(column["name"]) for column in found["columns"]) if found["columns"] else 0
    types = max((len(column["type"]) for column in found["columns"]), default=0)
    for column in found["columns"]:
        field = f"field {column['field']}" if column["field"] is not None else ""
        about = ", ".join(text for text in (column["part"], field) if text)
        line = f"  {column['name']:{width}}  {column['type']:{types}}  {about}"
        lines.append(f"{line}: {column['meaning']}" if column["meaning"] else line.rstrip())
    lines += ["", f"key: {', '.join(found['key']) or 'none'}"]
    lines += ["", f"state {found['state']}: {counted(rows, 'row')}, {size(number)}"]
    lines += [
        f"  shard {n}: {counted(shard['rows'], 'row')}, {size(shard['bytes'])}"
        for n, shard in enumerate(found["shards"])
    ]
    return "\n".join(lines)


def _find(committed: Committed, name: str) -> Relation:
    relations = relations_of(committed.plan)
    for relation in relations:
        if str(relation).lower() == name.lower():
            return relation
    names = [str(relation) for relation in relations]
    raise DiagnosticError(
        Diagnostic(
            "STA024",
            f"unknown relation `{name}` in {committed.title}",
            notes=(f"there is {', '.join(names) or 'none: no operator of this query keeps state'}",),
            help=suggestion(name, names),
        ),
        exit_code=2,
    )


def _field_ids(relation: Relation, versions: StateVersions | None) -> dict[tuple[str, str], int]:
    """The ids of the stored fields of a relation, by part and column of the table."""
    if relation.table is None or versions is None:
        return {}
    table = relation.spec.state.table(relation.table)
    ids = {(f.table, f.part, f.meaning): f.id for f in versions.fields}
    parts = (
        ("key", "key", table.key),
        ("sub-key", "sub_key", table.sub_key),
        ("value", "value", table.value),
    )
    return {
        (shown, f.name): ids[table.name, part, f.fingerprint]
        for shown, part, fields in parts
        for f in fields
        if (table.name, part, f.fingerprint) in ids
    }


def _shards(versions: StateVersions | None) -> list[ShardVersion]:
    return [] if versions is None else [ShardVersion.from_json(shard) for shard in versions.shards]
