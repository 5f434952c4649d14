"""What a run warns of because of the rows that it has read: late ones, and ones that are ahead of the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlstream.runtime.loop.progress import EpochReport, counted_rows, dead_letter_kinds, instant
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.plan.watermarks import OUTSIDE
from sqlstream_operators.state.places import below
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.logical.text import duration

#: So many rows in a row of epochs are late before a warning says that most are.
_FEWEST_LATE = 2


@dataclass(slots=True)
class EpochWarnings:
    """Adds up what the epochs of a run could not count, and warns at once of what should not wait for its end.

    `tell` is called once for each source with rows ahead of the clock, and once for each that is mostly late.
    """

    plan: PhysicalPlan
    tell: Callable[[Diagnostic], None]
    dead: Counter[str] = field(default_factory=Counter)
    uncounted: dict[str, Counter[str]] = field(default_factory=dict)
    read: int = 0
    _late: dict[str, int] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)

    def epoch(self, report: EpochReport) -> None:
        """An epoch is committed."""
        self.dead.update(report.dead_letters)
        self.read += sum(report.rows_read.values())
        for table, of in report.uncounted.items():
            self.uncounted.setdefault(table, Counter()).update(of)
        for source in self.plan.sources:
            mark = source.watermark
            ahead = report.ahead.get(source.name, 0)
            if ahead and mark is not None and mark.max_ahead_us is not None:
                self._once("DAT010", source.name, _ahead(report.epoch, source.name, ahead, mark.max_ahead_us))
            rows = report.rows_read.get(source.name, 0)
            late = min(
                rows, _most(report.uncounted.get(source.name, {}))
            )  # a self-join counts a row on both sides
            if rows:
                self._late[source.name] = self._late.get(source.name, 0) + late if 2 * late > rows else 0
            if self._late.get(source.name, 0) >= _FEWEST_LATE:
                at = report.watermarks.get(source.name)
                self._once("DAT013", source.name, _mostly_late(report.epoch, source.name, late, rows, at))

    def at_the_end(self, state_dir: str) -> Diagnostic | None:
        """The warning about the dead letters of the whole run; None if there are none."""
        return dead_letter_warning(self.dead, self.read, state_dir, self.uncounted)

    def _once(self, code: str, source: str, warning: Diagnostic) -> None:
        if (code, source) not in self._reported:
            self._reported.add((code, source))
            self.tell(warning)


def _ahead(epoch: int, source: str, rows: int, most_us: int) -> Diagnostic:
    verb = "is" if rows == 1 else "are"
    return Diagnostic(
        "DAT010",
        f"{counted_rows(rows, 'row')} of `{source}` {verb} more than {duration(most_us)} ahead of the clock",
        notes=(
            f"epoch {epoch} read {'it' if rows == 1 else 'them'}: counted as any other row, but not for the watermark, "
            "or all rows of today would be late",
        ),
        help="'scan.watermark.max-ahead' = '0 s' in the table's WITH (…) lets every row move the watermark",
        severity="warning",
    )


def _mostly_late(epoch: int, source: str, late: int, rows: int, at: int | str | None) -> Diagnostic:
    where = instant(at) if isinstance(at, int) else at or "none yet"
    return Diagnostic(
        "DAT013",
        f"most rows of `{source}` are late: {late:,} of {counted_rows(rows, 'row')} in epoch {epoch}",
        notes=(f"its watermark is {where}: rows before it go to the dead letters",),
        help="if a wrong time moved the watermark, see docs/running/dead-letters.md#a-watermark-that-is-too-far-ahead",
        severity="warning",
    )


def dead_letter_warning(
    dead: Mapping[str, int], read: int, state_dir: str, uncounted: Mapping[str, Mapping[str, int]]
) -> Diagnostic | None:
    """The warning about the dead letters of a run that read so many rows; None if there are none.

    `uncounted` has rows that were late or had no time, by table and operator: a row is a dead letter for each operator.
    """
    total = sum(dead.values())
    if not total:
        return None
    rows = dead.get("malformed", 0) + sum(of.get(OUTSIDE, 0) + _most(of) for of in uncounted.values())
    several = any(len(of.keys() - {OUTSIDE}) > 1 for of in uncounted.values())
    notes = [f"they are kept in {below(state_dir, 'dead-letter')}"]
    if several:
        notes.insert(0, f"a row is a dead letter for each operator that can't count it: {total:,} in all")
    return Diagnostic(
        "DAT006",
        f"{_of(rows, read, several)} could not be counted ({', '.join(dead_letter_kinds(dead))})"
        if rows
        else f"some results could not be computed ({total:,})",
        notes=tuple(notes),
        help="SET 'execution.max-dead-letters' or 'execution.max-dead-letter-share' stops a run that has too many",
        severity="warning",
    )


def _most(of: Mapping[str, int]) -> int:
    """How many rows the operator could not count that could count the fewest."""
    return max((number for operator, number in of.items() if operator != OUTSIDE), default=0)


def _of(rows: int, read: int, several: bool) -> str:
    """So many of the rows that were read; at least so many, where `several` operators count for themselves."""
    if rows >= read:
        return "the only row that was read" if read == 1 else f"all {read:,} rows that were read"
    least = "at least " if several else ""
    return f"{least}{rows:,} of {read:,} rows that were read"
