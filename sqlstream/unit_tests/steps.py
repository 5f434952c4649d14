"""The steps of a test, one after the other on one state directory, with what is expected after each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.edits.deciding import decide
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.edits.sinks.sink_places import looking
from sqlstream.runtime.loop.recovery import last_manifest
from sqlstream.storage.dead_letter import FOLDER
from sqlstream.storage.journal import Journal
from sqlstream.storage.run_folder import RunFolder
from sqlstream.unit_tests import content
from sqlstream.unit_tests.checks import Expected, check_error, check_plan, check_rows
from sqlstream.unit_tests.connectors import MemoryConnectors
from sqlstream.unit_tests.memory import Memory
from sqlstream.unit_tests.outcome import Failure
from sqlstream.unit_tests.runner import MovingRunner
from sqlstream.unit_tests.script import LETTERS, ReadyStep, check_names
from sqlstream.unit_tests.tables import Output, changelogs
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import PhysicalPlan, Schema
from sqlstream_operators.plan.types import NESTED, Kind
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_planner.diagnostics import DiagnosticError, counted


@dataclass(slots=True)
class Steps:
    """Runs the steps of a test. With `of_views` only what is expected of views is checked, and edits need no consent."""

    duck: DuckSession
    steps: Sequence[ReadyStep]
    of_views: bool = False
    memory: Memory = field(default_factory=Memory)
    caches: OpenCaches = field(default_factory=OpenCaches)

    def failures(self) -> tuple[Failure, ...]:
        """What is otherwise than expected in the first step that is not as it should be.

        Raises DiagnosticError with which a step ends that should not.
        """
        with RunFolder("unit-test-", in_memory=True) as folder:
            try:
                for step in self.steps:
                    found = tuple(_Step(self, step, folder.path).failures())
                    if found:
                        return found
            finally:
                self.caches.close()
        return ()


class _Step:
    """One step."""

    def __init__(self, test: Steps, step: ReadyStep, folder: Path) -> None:
        self._test = test
        self._step = step
        self._folder = folder
        self._memory = test.memory
        self._connectors = MemoryConnectors(test.memory, changelogs(step.version), test.duck)
        self._epochs: list[int] = []
        self._late = 0

    def failures(self) -> Iterator[Failure]:
        """Run it, and compare."""
        step = self._step.step
        try:
            decided = (
                self._decided() if step.edit is not None and (step.plan or self._test.of_views) else None
            )
            if decided is not None and not self._test.of_views:
                yield from self._plan(decided)
            self._give()
            self._run(decided)
        except DiagnosticError as error:
            if step.error is None:
                raise
            failure = check_error(step.label, step.error, error.diagnostics)
            if failure is not None and not self._test.of_views:
                yield failure
            return
        if step.error is not None and not self._test.of_views:
            summary = f"the step ended without the error {step.error.text}"
            yield Failure(step.label, "error", summary, step.error.span)
        for output, expected in self._step.outputs:
            failure = self._output(output, expected)
            if failure is not None:
                yield failure
        if not self._test.of_views:
            yield from self._letters()

    def _give(self) -> None:
        for spec, table in self._step.given:
            self._memory.stream(spec).tables.append(table)
        self._memory.dimensions.update(self._step.looked_up)
        for spec, _ in self._step.watermarks:
            self._memory.stream(spec).moves += 1

    def _request(self) -> RunRequest:
        version, step = self._step.version, self._step.step
        planned, edit = version.planned, step.edit
        options = replace(
            planned.physical.options,
            parallelism=None,
            max_rows_per_epoch=None,
            max_files_per_epoch=None,
            epoch_interval_us=None,
            state_dir=None,
            restart=None,
            drain=False,
        )
        plan: PhysicalPlan = replace(planned.physical, options=options)
        marks = {spec.name: mark for spec, mark in self._step.watermarks}
        return RunRequest(
            plan,
            state_dir=self._folder / "state",
            secrets=planned.secrets,
            parallelism=1,
            max_rows_per_epoch=_EVERYTHING,
            on_epoch=lambda report: self._epochs.append(report.epoch),
            base_dir=self._folder,
            local_dir=self._folder / "cache",
            runner=MovingRunner(self._connectors.of_tasks, marks, self._test.caches),
            connectors=self._connectors,
            writer=self._connectors.writer,
            sync=False,
            wall_clock=lambda: self._step.clock_us / 1e6,
            sql=version.masked_sql,
            nodes=planned.state_nodes,
            accept=() if edit is None else edit.accept,
            rewrite=() if edit is None else edit.rewrite,
            written=planned.written,
            drain=step.drain,
            place_of=planned.place_of,
        )

    def _run(self, decided: EditPlan | None) -> None:
        request = self._request()
        if decided is not None and self._test.of_views:
            required = (consent.accept for consent in decided.consents)
            request = replace(request, accept=(*request.accept, *required))
        run_pipeline(request)

    def _decided(self) -> EditPlan:
        """What the edit of this step means to the state as it is."""
        request = self._request()
        store = CheckpointStore(request.uri, sync=False)
        journal = Journal(store)
        return decide(
            request.edited,
            journal,
            last_manifest(journal),
            looks=looking(
                lambda spec, known_as: request.sink_of(spec, store, known_as), base_dir=request.base
            ),
            rewrite=request.rewrite,
            source_of=lambda spec, folder: request.source_of(spec, store, folder),
        )

    def _plan(self, decided: EditPlan) -> Iterator[Failure]:
        """Compare what becomes of operators and sinks."""
        step, known = self._step.step, _verdicts(decided)
        check_names(step, known)
        failure = check_plan(step.label, step.plan, known, step.plan[0][0].span)
        if failure is not None:
            yield failure

    def _output(self, output: Output, expected: Expected) -> Failure | None:
        if self._test.of_views and not output.is_view:
            return None
        given, duck = self._memory.content(output.spec), self._test.duck
        if expected.changes:
            found = content.changes(given, output.spec, self._epochs, duck)
            actual = [(change.kind, *change.row) for change in found]
        else:
            actual = list(content.rows(given, output.spec, duck))
        return check_rows(self._step.step.label, expected, output.spec.schema, actual, duck, self._note())

    def _note(self) -> str:
        """What else may be why rows are missing."""
        found = [letter for letter in self._found_letters() if letter["kind"] == "late"]
        late = sum(len(_late_rows(found, source)) for source in {letter["source"] for letter in found})
        if not late or self._step.late or self._step.dead_letters is not None:
            return ""
        return (
            f"{counted(late, 'row')} of this step came late, and {'is' if late == 1 else 'are'} not counted"
        )

    def _letters(self) -> Iterator[Failure]:
        """Compare late rows and dead letters."""
        step, duck = self._step, self._test.duck
        found = self._found_letters() if step.late or step.dead_letters is not None else []
        for spec, expected in step.late:
            late = _late_rows(found, spec.name)
            columns = expected.rows.columns
            rows = [tuple(_cell(row, column) for column in columns) for row in late]
            failure = check_rows(step.step.label, expected, columns, rows, duck)
            if failure is not None:
                yield failure
        if step.dead_letters is not None:
            schema: Schema = LETTERS
            rows = [tuple(_cell(letter, column) for column in schema) for letter in found]
            failure = check_rows(step.step.label, step.dead_letters, schema, rows, duck)
            if failure is not None:
                yield failure

    def _found_letters(self) -> list[dict[str, Any]]:
        """The dead letters of this step's epochs."""
        store = CheckpointStore(str(self._folder / "state"), sync=False)
        made = set(self._epochs)
        lines = (line for name in store.list(FOLDER) for line in store.get(name).splitlines() if line)
        return [letter for letter in map(json.loads, lines) if letter["epoch"] in made]


_EVERYTHING = 1 << 62


def _late_rows(letters: Sequence[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    """The rows of a source that are late: once each, for however many operators they are.

    Of equal rows there are as many as the operator had for which most of them are late.
    """
    of_operator: Counter[tuple[str, ...]] = Counter()
    listed: Counter[tuple[str, ...]] = Counter()
    rows = []
    for letter in letters:
        if (letter["kind"], letter["source"]) != ("late", source):
            continue
        row = (str(letter["epoch"]), json.dumps(letter["row"], sort_keys=True))
        seen = (letter["operator"], *row)
        of_operator[seen] += 1
        if of_operator[seen] > listed[row]:
            listed[row] += 1
            rows.append(letter["row"])
    return rows


def _cell(row: dict[str, Any], column: Column) -> str | None:
    """A value of a JSON object as a cell of rows."""
    value = next((v for k, v in row.items() if k.lower() == column.name.lower()), None)
    if value is None or isinstance(value, str):
        return value
    nested = column.type.kind in NESTED or column.type.kind is Kind.JSON
    if isinstance(value, bool) and not nested:
        return str(value).lower()
    return json.dumps(value) if nested or isinstance(value, dict | list) else str(value)


def _verdicts(plan: EditPlan) -> list[tuple[str, str, str]]:
    """What the plan of an edit says of each operator and sink: its name, the verdict, and why."""
    states = [(state.name, state.edit.verdict.value, state.reason) for state in plan.states]
    return states + [(sink.name, sink.change.value, sink.detail) for sink in plan.sinks]
