"""A plan of an edit as text: a line for each source, state, field and sink, in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlstream.cli.figures import size
from sqlstream.cli.painted import BOLD, DIM, GREEN, RED, painted
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.edits.history.readings import Reading
from sqlstream.runtime.edits.plan.plan_parts import EditPlan, SinkChange, SourceChange, SourcePart, StatePart
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.edits.verdict import FieldEdit, Verdict
from sqlstream_planner.explain.meaning import shown_meanings
from sqlstream_planner.text.masking import masked_source

_EPOCH_0 = datetime(1970, 1, 1, tzinfo=UTC)
_COLOURS = {"+": GREEN, "-": RED, "=": DIM}
_MARKS = {Verdict.KEEP: "=", Verdict.DROP: "-"}
#: Columns that the first column has at most, and at least one other.
_WIDEST, _WIDTH = 44, 72


@dataclass(frozen=True, slots=True)
class _Line:
    """A line: what it is about, the verdict, more about that, and the place in the file."""

    label: str
    verdict: str = ""
    detail: str = ""
    place: str = ""
    mark: str = ""
    indent: int = 2


def plan_lines(
    plan: EditPlan, file: str, against: str, sources: Mapping[str, str], *, colour: bool = False
) -> Iterator[str]:
    """The lines of a plan of `file`; `against` says what it is made against where there is no state.

    `sources` are the texts of the files that places are in, by their names.
    """
    yield _header(plan, file, against)
    yield ""
    if plan.is_first or plan.changes:
        yield from _columns([*_parts(plan)], colour=colour)
        yield ""
    clauses = [*_clauses(plan, sources, colour=colour)]
    if clauses:
        yield from (*clauses, "")
    for consent in plan.consents:
        if consent.why.code == "DAT008":
            yield (
                f"consent is needed: {consent.what} can't be computed from the input again; to let it begin now, give `run` "
                f"--accept {consent.accept}"
            )
        else:
            yield f"consent is needed: {consent.what} {consent.then}; to agree, give `run` --accept {consent.accept}"
    yield from plan.remarks
    yield painted(BOLD, plan.summary) if colour else plan.summary


def amount(number: int) -> str:
    """A number for people.

    >>> amount(12), amount(48_120), amount(9_240_000), amount(12_345_678_901)
    ('12', '48,120', '9.2 M', '12.3 bn')
    """
    if number < 1_000_000:
        return f"{number:,}"
    return f"{number / 1e6:,.1f} M" if number < 1_000_000_000 else f"{number / 1e9:,.1f} bn"


def _header(plan: EditPlan, file: str, against: str) -> str:
    if plan.is_diff:
        return f"{file} {against}"
    if plan.against is None:
        return f"{file} has no state yet {against}"
    found = plan.against
    what = f"savepoint {found.savepoint}" if found.savepoint else "its last state"
    words = [f"epoch {found.epoch:,}"]
    if found.at is not None:
        words.append(f"{_EPOCH_0 + timedelta(microseconds=found.at):%Y-%m-%d %H:%M}")
    words += [f"{_rows(found.rows)} of state", size(found.bytes)]
    return f"{file} against {what}: {', '.join(words)}"


def _parts(plan: EditPlan) -> Iterator[_Line]:
    for source in plan.sources:
        yield _Line(f"{source.name} ({source.connector})", detail=_source(plan, source))
    for state in plan.states:
        yield from _state(state)
    for sink in plan.sinks:
        detail = sink.change.value + (f": {sink.detail}" if sink.detail else "")
        if sink.change is SinkChange.FROM_NOW_ON:
            detail = sink.detail
        if sink.readings:
            detail = f"{sink.change.value}: {_work(sink.readings)} for it"
        yield _Line(f"{sink.name} ({sink.connector})", detail=detail, place=_place(sink.at))
    for note in plan.notes:
        yield _Line(note)


def _source(plan: EditPlan, source: SourcePart) -> str:
    was = f"was called {source.was}; " if source.was else ""
    if source.change is not SourceChange.READS_ON:
        new = (
            "is read from its beginning"
            if plan.is_first
            else "is read from its beginning: it was not read before"
        )
        return {
            SourceChange.NEW: new,
            SourceChange.GONE: "is no longer read",
            SourceChange.OTHER: "has other data than before",
        }[source.change]
    if source.position is None:
        return f"{was}reads on"
    read = "" if source.rows is None else f"; {_rows(source.rows)} read"
    return f"{was}reads on at {REGISTERED.place_of(source.connector, source.position)}{read}"


def _state(state: StatePart) -> Iterator[_Line]:
    edit = state.edit
    kept = "" if state.size is None else f"{_rows(state.size.rows)}, {size(state.size.bytes)}"
    title = f"{state.name}: {state.title}"
    if edit.new is None:
        yield _Line(title, "DROP", "; ".join(filter(None, (kept, "stays in savepoints"))), mark="-")
        return
    was = f"was {state.was}" if state.was else ""
    yield _Line(title, detail="; ".join(filter(None, (kept, was))), place=_place(edit.at))
    groups: dict[tuple[Verdict, str], list[FieldEdit]] = {}
    # What only moves to another table of the state, or gets another type, is not gone.
    still = {f.meaning for f in state.fields if f.verdict is not Verdict.DROP}
    for field in state.fields:
        if field.verdict is Verdict.DROP and field.meaning in still:
            continue
        groups.setdefault((field.verdict, _why(state, field)), []).append(field)
    for (verdict, why), fields in groups.items():
        places = {_place(f.at) for f in fields if verdict not in (Verdict.KEEP, Verdict.DROP)}
        at = places.pop() if len(places) == 1 else ""  # several stand below, with their lines
        labels = _wrapped(shown_meanings(f.meaning for f in fields))
        for number, label in enumerate(labels):
            mark = _MARKS.get(verdict, "+")
            yield _Line(label, verdict.value, why, at, mark, 4) if not number else _Line(label, indent=6)


def _why(state: StatePart, field: FieldEdit) -> str:
    """The reason of a verdict, and the work that it is."""
    reason = field.reason or ("" if field.verdict in (Verdict.KEEP, Verdict.DROP) else state.edit.reason)
    if field.verdict is Verdict.ADAPT and not reason:
        reason = "it is kept in another form"
    if field.verdict is not Verdict.BACKFILL:
        return reason
    return "; ".join(filter(None, (reason, _work(state.readings))))


def _work(readings: Sequence[Reading]) -> str:
    if not readings:
        return ""
    seconds = sum(reading.seconds or 0.0 for reading in readings)
    about = f", about {_duration(seconds)}" if seconds >= 1 else ""
    *first, last = map(_reading, readings)
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"reads {listed} again{about}"


def _duration(seconds: float) -> str:
    """A time for people.

    >>> _duration(40.2), _duration(170), _duration(9000)
    ('40 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _reading(reading: Reading) -> str:
    rows = "" if reading.rows is None else f"{_rows(reading.rows)} of "
    return f"{rows}{reading.source}" + ("" if reading.bytes is None else f" ({size(reading.bytes)})")


def _rows(number: int) -> str:
    return f"{amount(number)} row{'' if number == 1 else 's'}"


def _place(at: Span | None) -> str:
    return "" if at is None else f"{Path(at.file).name}:{at.line}:{at.column}"


def _wrapped(labels: Sequence[str]) -> list[str]:
    """Names in as many lines as they need."""
    lines = [""]
    for label in labels:
        if lines[-1] and len(lines[-1]) + len(label) + 2 > _WIDEST - 6:
            lines[-1] += ","
            lines.append("")
        lines[-1] += f", {label}" if lines[-1] else label
    return lines


def _clauses(plan: EditPlan, sources: Mapping[str, str], *, colour: bool) -> Iterator[str]:
    """The clauses that make something of the state other than it was, each with its line and what becomes of it."""
    found: dict[Span, dict[Verdict, list[str]]] = {}
    for state in plan.states:
        for field in state.fields:
            if field.at is not None and field.verdict not in (Verdict.KEEP, Verdict.DROP):
                found.setdefault(field.at, {}).setdefault(field.verdict, []).append(field.meaning)
    places = sorted(found, key=lambda at: (at.file, at.line, at.column))
    margin = " " * max((len(str(at.line)) for at in places), default=0)
    last: Span | None = None
    for at in places:
        lines = masked_source(sources.get(at.file, "")).split("\n")
        if not 1 <= at.line <= len(lines):
            continue
        text = lines[at.line - 1].rstrip("\r").replace("\t", " ")
        if last is None or last.file != at.file:
            yield from (f"{margin}--> {at.file}:{at.line}:{at.column}", f"{margin} |")
        if last is None or (last.file, last.line) != (at.file, at.line):
            yield f"{at.line:{len(margin)}} | {text}"
        carets = "^" * max(1, min(at.length, len(text) - at.column + 1))
        verdicts = "; ".join(
            f"{', '.join(shown_meanings(names))}: {verdict}" for verdict, names in found[at].items()
        )
        under = painted(_COLOURS["+"] if colour else "", f"{carets} {verdicts}")
        yield f"{margin} | {' ' * (at.column - 1)}{under}"
        last = at


def _columns(lines: Sequence[_Line], *, colour: bool) -> Iterable[str]:
    first = [_first(line) for line in lines]
    width = min(_WIDEST, max(map(len, first), default=0))
    middles = [f"{line.verdict:8}  {line.detail}" if line.mark else line.detail for line in lines]
    second = max((len(m) for m, line in zip(middles, lines, strict=True) if line.place), default=0)
    for line, label, middle in zip(lines, first, middles, strict=True):
        text = f"{label:{width}}  {middle}".rstrip()
        if line.place:
            text = f"{text:{min(width + 2 + second, width + 2 + _WIDTH)}}  {line.place}"
        yield painted(_COLOURS.get(line.mark, "") if colour else "", text)


def _first(line: _Line) -> str:
    return " " * line.indent + (f"{line.mark} {line.label}" if line.mark else line.label)
