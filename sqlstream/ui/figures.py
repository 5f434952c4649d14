"""What a graph's nodes are at: rows, state, skew over shards and watermarks, by the last manifest and the history."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from sqlstream.runtime.loop.epoch import shown_watermark
from sqlstream.state.overview import Overview
from sqlstream.storage.epoch_history import EpochRecord, History
from sqlstream.storage.manifest import Manifest, StateVersions
from sqlstream.storage.run_status import RUNNING
from sqlstream_planner.explain.graph import Graph

#: Rows per second are those of the last so many seconds, and of so many epochs at most.
RATE_OVER_S, RATE_EPOCHS = 30, 300


def rates(history: History, *, running: bool) -> tuple[EpochRecord | None, dict[str, float]]:
    """The last epoch, and rows per second by node of a graph: all 0 if nothing runs."""
    records: list[EpochRecord] = []
    for record in history.latest():
        if records and (
            records[0].at_us - record.at_us > RATE_OVER_S * 1_000_000 or len(records) == RATE_EPOCHS
        ):
            break
        records.append(record)
    if not records:
        return None, {}
    own = list(takewhile(lambda record: record.run == records[0].run, records))
    seconds = max((own[0].at_us - own[-1].at_us) / 1e6 + own[-1].total_seconds, 1e-3)
    rows: dict[str, int] = {}
    for record in own:
        for node, number in _rows(record).items():
            rows[node] = rows.get(node, 0) + number
    return records[0], {node: round(n / seconds, 1) if running else 0.0 for node, n in rows.items()}


def _rows(record: EpochRecord) -> dict[str, int]:
    """Rows of an epoch by node."""
    return {
        **{f"source:{name}": rows for name, rows in record.read.items()},
        **{f"op:{name}": rows for name, rows in record.made.items()},
        **{f"sink:{name}": rows for name, rows in record.written.items()},
    }


def figures(graph: Graph, manifest: Manifest, found: Overview, history: History) -> dict[str, dict[str, Any]]:
    """By the id of a node: `rows_per_s`, `rows` of the last epoch, `watermark`, `lag`, `state`."""
    last, per_s = rates(history, running=found.state == RUNNING)
    rows = {} if last is None else _rows(last)
    states = {state.state_id: state for state in manifest.states}
    applied = {source.name: source.applied for source in manifest.sources}
    made: dict[str, dict[str, Any]] = {}
    for node in graph.nodes:
        own: dict[str, Any] = {"rows_per_s": per_s.get(node.id), "rows": rows.get(node.id)}
        if node.kind == "source":
            own["watermark"] = shown_watermark(applied[node.title]) if node.title in applied else None
            own["lag"] = found.lag.get(node.title)
            own["rows_read"] = found.rows.get(node.title)
        if node.kind == "sink":
            own["epoch"] = manifest.committed or None
        if node.state in states:
            own["state"] = state_figures(states[node.state])
        marks = [applied[name] for name in node.watermark_sources if name in applied]
        if marks:
            own["watermark"] = shown_watermark(min(marks))
        made[node.id] = own
    return made


def state_figures(state: StateVersions) -> dict[str, Any]:
    """Rows and bytes of a state, by shard, too; `skew` is the largest shard in rows, as a multiple of the mean."""
    shards = [(int(shard["rows"]), int(shard["bytes"])) for shard in state.shards]
    total = sum(rows for rows, _ in shards)
    skew = max(rows for rows, _ in shards) * len(shards) / total if total else None
    return {
        "rows": state.rows,
        "bytes": state.bytes,
        "shards": [{"rows": rows, "bytes": size} for rows, size in shards],
        "skew": None if skew is None else round(skew, 2),
    }
