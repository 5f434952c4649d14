"""What a run says when it has ended: what it read and wrote, what is open, dead or left out, and where its state is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlstream.cli.figures import lowest_watermark
from sqlstream.connectors.filesystem.paths import listed
from sqlstream.runtime.edits.sinks.sink_places import descriptor_of
from sqlstream.runtime.loop.epoch import shown_watermark
from sqlstream.runtime.loop.progress import LeftOpen, RunResult, counted_rows, dead_letter_kinds, instant
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_operators.state.places import below
from sqlstream_planner.catalog.secrets import without_secrets
from sqlstream_planner.diagnostics import counted


def summary(name: str, plan: PhysicalPlan, result: RunResult, state_dir: str) -> list[str]:
    """How a run ended, in a few lines."""
    but = f" but {counted(len(result.skipped), 'file')}" if result.skipped else ""
    ending = {
        "exhausted": f"done, all input that is there{but} is read, all results are committed",
        "stopped": "stopped, what was read is committed; run again to go on"
        if result.unfinished is None
        else f"stopped in epoch {result.unfinished}, which the next run does again; all before it is committed",
        "nothing new": f"nothing new, everything{but} up to here was read and committed before"
        if result.last_epoch is not None
        else "nothing to read, no source has ever had a row",
    }.get(result.outcome, result.outcome)
    lines = [f"{name}: {ending}"]
    if result.outcome != "nothing new":
        lines += _table("read", ((n, counted_rows(r, "row"), "") for n, r in result.rows_read.items()))
        places = {sink.name: _place(sink) for sink in without_secrets(plan).sinks}
        # What a table or a changelog is given where rows are updating; how many rows there are now is another question.
        changing = {sink.name for sink in plan.sinks if sink.changelog != "append"}
        written = (
            (name, counted_rows(number, "change" if name in changing else "row"), places.get(name, ""))
            for name, number in result.rows_written.items()
        )
        lines += _table("wrote", written)
        lines.append(f"  {'epochs':<7}{result.epochs} in {result.seconds:.1f} s")
    lines += _open_lines(result.left_open)
    dead = ", ".join(dead_letter_kinds(result.dead_letters))
    if dead:
        lines.append(f"  {'dead':<7}{dead}: kept in {below(state_dir, 'dead-letter')}")
    if result.skipped:
        lines.append(f"  {'skipped':<8}{listed(result.skipped)}: --read-again PATH takes a file back")
    lines += [f"  {'' if i else 'left out':<9}{one}" for i, one in enumerate(result.left_out)]
    lines.append(f"  {'state':<7}{state_dir}")
    return lines


def _open_lines(left_open: Sequence[LeftOpen]) -> list[str]:
    """What waits for the watermark, and what becomes of it."""
    if not left_open:
        return []
    lines = _table("open", ((one.operator, _waiting(one), _until(one)) for one in left_open))
    mark = lowest_watermark([shown_watermark(one.watermark_us) for one in left_open])
    return [*lines, f"  {'':<7}the next run goes on from watermark {mark}; --drain closes them for good"]


def _waiting(one: LeftOpen) -> str:
    """What waits in the state of an operator, in words."""
    return f"about {one.rows:,} rows of state" if one.number is None else counted_rows(one.number, one.what)


def _until(one: LeftOpen) -> str:
    return "" if one.until_us is None else f"until {instant(one.until_us)}"


def _table(title: str, rows: Iterable[tuple[str, str, str]]) -> list[str]:
    found = list(rows)
    if not found:
        return []
    wide = max(len(name) for name, _, _ in found)
    high = max(len(count) for _, count, _ in found)
    return [
        f"  {title if i == 0 else '':<7}{name:<{wide}}  {count:>{high}}  {place}".rstrip()
        for i, (name, count, place) in enumerate(found)
    ]


def _place(sink: SinkSpec) -> str:
    """Where a sink's rows went: a path, or the connector and what it calls the table.

    >>> _place(SinkSpec("o", "filesystem", {"path": "out"}, ())), _place(SinkSpec("o", "print", {}, ()))
    ('to out', 'to print')
    >>> _place(SinkSpec("o", "kafka", {"topic": "orders"}, ())), _place(SinkSpec("o", "postgres", {}, ()))
    ('to kafka orders', 'to postgres o')
    """
    path = sink.options.get("path") or sink.options.get("table-path")
    if path:
        return f"to {path}"
    descriptor = descriptor_of(sink)
    if descriptor is None or not descriptor.sink.place:
        return f"to {sink.connector}"
    option = descriptor.sink.place[-1]
    name = sink.options.get(option, "") or (sink.name if option == descriptor.sink.named_by else "")
    return f"to {sink.connector} {name}".rstrip()
