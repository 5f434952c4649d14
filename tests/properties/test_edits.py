"""Random edits of a query between two runs: refused, asked about, or the table is what DuckDB gives for the new one.

The old text reads the first files, the edited one all that come later. A refused edit changes nothing: the old text goes
on, and its table is right at the end. A table that is only appended to may keep what it was given.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import seeds
from tests.properties.file_generator import (
    COMPUTED,
    CONDITIONS,
    Chance,
    Form,
    Query,
    computed,
    draw_form,
    filtered,
    generated_file,
    related,
    renamed,
    scan,
    table_of,
)
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.sources import Source
from tests.properties.updating import fetched


def _top(chance: Chance, below: Query) -> Form:
    column, other = chance.one(below.whole), chance.one(below.whole)
    if chance.maybe():
        return Form(filtered, {"where": chance.one(CONDITIONS).format(c=column, o=other)})
    return Form(computed, {"expression": chance.one(COMPUTED).format(c=column, o=other)})


def _over(source: Source, forms: tuple[Form, ...]) -> Query:
    query = table_of(source.name, scan(source))
    for form in forms:
        query = form.over(query)
    return query


def _drawn(chance: Chance, source: Source) -> tuple[Form, ...]:
    """A form or two over the table, and perhaps a filter or a computed column over them."""
    forms: tuple[Form, ...] = ()
    for _ in range(chance.number(1, 2)):
        below = _over(source, forms)
        if below.whole:
            forms = (*forms, draw_form(chance, below))
    below = _over(source, forms)
    return (*forms, _top(chance, below)) if below.whole and chance.maybe() else forms


def _edited(chance: Chance, source: Source, forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """Something more or less above, one parameter of one form, or the same in another way."""
    kind = chance.one(["top", "less", "form", "form", "twice renamed"])
    whole = _over(source, forms)
    if kind == "top" and whole.whole:
        return (*forms, _top(chance, whole))
    if kind == "less" and len(forms) > 1:
        return forms[:-1]
    if kind == "form":
        at = chance.number(0, len(forms) - 1)
        below = _over(source, forms[:at])
        if below.whole:
            return (*forms[:at], related(chance, forms[at], below), *forms[at + 1 :])
    return (forms[0], Form(renamed, {"prefix": "r"}), _back(_over(source, forms[:1])), *forms[1:])


def _back(of: Query) -> Form:
    """The names that `renamed` took away, given again."""

    def named(below: Query) -> Query:
        items = ", ".join(f"{new} AS {old}" for new, old in zip(below.columns, of.columns, strict=True))
        text = f"SELECT {items} FROM ({{q}}) AS back"
        return replace(of, ours=text.replace("{q}", below.ours), judge=text.replace("{q}", below.judge))

    return Form(named)


class _Edit:
    """Two texts over one table, and the files that each of them reads."""

    def __init__(self, seed: int, folder: Path) -> None:
        chance = Chance(seed)
        self.folder = folder
        self.source = chance.one(generated_file(seed).sources)
        self.source = replace(self.source, matching=None)
        forms = _drawn(chance, self.source)
        self.old, self.new = (_over(self.source, f) for f in (forms, _edited(chance, self.source, forms)))
        rows = [row for rows in self.source.files.values() for row in rows]
        self.rows = rows
        self.cut = chance.number(0, len(rows))

    @property
    def can_be_judged(self) -> bool:
        return bool(self.rows and self.old.whole and self.new.whole) and not (self.old.ties or self.new.ties)

    def plan(self, query: Query) -> Planned:
        text = (
            f"{self.source.statement}\n"
            f"CREATE TABLE o WITH ('connector' = 'duckdb', 'path' = 'out.duckdb') AS {query.ours};\n"
        )
        (self.folder / "p.sql").write_text(text)
        return plan_file(self.folder / "p.sql")

    def arrive(self, file: str, first: int, last: int) -> None:
        replace(self.source, files={file: self.rows[first:last]}).write(self.folder)

    def check(self, query: Query) -> None:
        assert_same(self.given(query.columns), self.wanted(query, query.columns))

    def wanted(self, query: Query, columns: Iterable[str]) -> Rows:
        """These columns of a query's answer over all rows, by DuckDB."""
        with empty_duckdb() as judge:
            judge.register("rows_of", self.source.table(self.rows))
            judge.execute(f"CREATE VIEW {self.source.name} AS FROM rows_of")
            return fetched(judge, f"SELECT {', '.join(columns)} FROM ({query.judge}) AS j")

    def given(self, columns: Iterable[str]) -> Rows:
        """These columns of the table."""
        with duckdb.connect(str(self.folder / "out.duckdb"), read_only=True) as con:
            return fetched(con, f"SELECT {', '.join(columns)} FROM o")

    def outcome(self) -> str:
        """What became of the edit: refused, asked about, gone on with, or gone on with from now on."""
        old, new = self.plan(self.old), self.plan(self.new)
        self.arrive("0.json", 0, self.cut)
        run_here(old, self.folder, parallelism=2)
        both = [name for name in self.new.columns if name in self.old.columns]
        before = Counter(map(repr, self.given(both))) if both and self.cut else Counter()
        self.arrive("1.json", self.cut, len(self.rows))
        reported: list[str] = []
        try:
            run_here(new, self.folder, parallelism=2, tell=lambda warning: reported.append(warning.code))
        except DiagnosticError as error:
            if error.exit_code not in (3, 4):
                raise
            run_here(old, self.folder, parallelism=2)
            self.check(self.old)
            return "refused" if error.exit_code == 4 else "asked"
        if "STA016" not in reported:
            self.check(self.new)
            return "the same" if self.old.ours == self.new.ours else "gone on"
        # A table that is only appended to keeps what it was given, and goes on with rows of the new query.
        after = Counter(map(repr, self.given(both)))
        assert not before - after
        assert not after - before - Counter(map(repr, self.wanted(self.new, both)))
        return "from now on"


def test_an_edit_is_refused_or_the_table_is_the_new_querys_answer() -> None:
    outcomes: Counter[str] = Counter()
    for seed in seeds(32):
        with tempfile.TemporaryDirectory() as name:
            edit = _Edit(seed, Path(name))
            if not edit.can_be_judged:
                continue
            try:
                edit.plan(edit.old), edit.plan(edit.new)
            except DiagnosticError:  # a column has a type that the form can't take
                continue
            try:
                outcomes[edit.outcome()] += 1
            except AssertionError as error:
                pytest.fail(f"seed {seed}, cut {edit.cut}:\n{edit.old.ours}\n{edit.new.ours}\n{error}")
    # Little is refused since rows that are given once may be replaced by consent.
    assert min(outcomes[what] for what in ("asked", "gone on", "from now on")) > 1, outcomes
    assert outcomes["refused"], outcomes
    assert outcomes["asked"], outcomes
