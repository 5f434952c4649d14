"""Puts the reports of an epoch's tasks together, in a fixed order, and checks that none is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from sqlstream.connectors.api import SinkPart
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome, SourceOutcome
from sqlstream.storage.epoch_history import TaskFigures
from sqlstream_operators.state.object_files import requests_sent
from sqlstream_operators.state.version import ShardVersion
from sqlstream_operators.task.report import Report
from sqlstream_planner.diagnostics import InternalError


def outcome_of(job: EpochJob, splits: Sequence[int], reports: Sequence[Report]) -> EpochOutcome:
    """The outcome of an epoch whose tasks read splits by these ordinals.

    Raises InternalError if a split, a shard or a state has not reported once.
    """
    ordered = sorted(reports, key=lambda report: (report.level, report.ordinal))
    _check_complete(job, splits, ordered)
    sources = {}
    for source in job.plan.sources:
        own = [report for report in ordered if report.source == source.name]
        lanes: dict[str, int] = {}
        for report in own:
            for lane, watermark in report.lanes.items():
                lanes[lane] = max(watermark, lanes.get(lane, watermark))
        sources[source.name] = SourceOutcome(
            sum(report.rows for report in own),
            max(lanes.values(), default=None),
            sum(report.malformed for report in own),
            sum(report.ahead for report in own),
            lanes,
        )
    states: dict[str, dict[int, ShardVersion]] = defaultdict(dict)
    parts: dict[str, list[SinkPart]] = {sink.name: [] for sink in job.program.sinks}
    closed: dict[str, int] = {}
    metrics: dict[str, int] = defaultdict(int)
    forgotten: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    uncounted: dict[str, Counter[str]] = defaultdict(Counter)
    made: Counter[str] = Counter()
    here, _ = requests_sent()
    for report in ordered:
        process, requests = report.requests
        if requests and process != here:  # the driver's process counts its own
            metrics["store_requests"] += requests
        if report.letters is not None:
            letters.update(report.letters.rows)
        for table, of in report.uncounted.items():
            uncounted[table].update(of)
        for state_id, version in report.state.items():
            states[state_id][report.ordinal] = version
        for part in report.parts:
            parts[part.sink].append(SinkPart(part.rows, part.payload, part.table, part.staged))
        for name, microseconds in report.timings.items():
            metrics[f"task_{name}_us"] += microseconds
        metrics["shipped_bytes"] += report.shipped_bytes
        made.update(report.made)
        for step, figures in report.metrics.items():
            forgotten[step] += figures.get("forgotten_keys", 0)
            for name, value in figures.items():
                if name == "max_closed_end_us":
                    closed[step] = max(closed.get(step, value), value)
                else:
                    metrics[name] += value
    return EpochOutcome(
        sources=sources,
        states={
            state.state_id: _all_shards(job, state.state_id, states[state.state_id])
            for state in job.program.states
        },
        parts={name: tuple(made) for name, made in parts.items()},
        dead_letters=dict(sorted(letters.items())),
        dead_letter_files=tuple(report.letters.file for report in ordered if report.letters is not None),
        closed=closed,
        metrics=dict(sorted(metrics.items())),
        forgotten=dict(sorted((+forgotten).items())),
        uncounted={table: dict(of) for table, of in sorted(uncounted.items())},
        made=dict(sorted(made.items())),
        tasks=tuple(
            TaskFigures(r.task, r.rows, r.read_bytes, r.shipped_bytes, dict(r.timings)) for r in ordered
        ),
    )


def _check_complete(job: EpochJob, splits: Sequence[int], reports: Sequence[Report]) -> None:
    expected = [(0, ordinal) for ordinal in splits]
    expected += [
        (level, shard) for level in range(1, job.program.levels) for shard in range(job.plan.parallelism)
    ]
    found = [(report.level, report.ordinal) for report in reports]
    if found != expected or any(report.epoch != job.plan.epoch for report in reports):
        raise InternalError(f"epoch {job.plan.epoch}: expected reports of {expected}, got {found}")


def _all_shards(job: EpochJob, state_id: str, found: Mapping[int, ShardVersion]) -> tuple[ShardVersion, ...]:
    if sorted(found) != list(range(job.plan.parallelism)):
        raise InternalError(
            f"epoch {job.plan.epoch}: state {state_id} has new versions of shards {sorted(found)}, "
            f"not of all {job.plan.parallelism}"
        )
    return tuple(found[shard] for shard in range(job.plan.parallelism))
