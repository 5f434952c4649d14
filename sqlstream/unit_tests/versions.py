"""The pipeline as each step runs it: its text by then, planned, with tables for the views that a test looks at.

Nothing of the environment is read but what catalogs are asked with (`catalogs`): variables of it that a test does not set
have their own names as values, so that no password is needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.project import Project, load_project
from sqlstream.unit_tests.catalogs import with_environment
from sqlstream.unit_tests.model import Edit, UnitTest
from sqlstream.unit_tests.yaml_nodes import Scalar
from sqlstream_operators.plan.types import quote_identifier, quote_literal
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, refuse
from sqlstream_planner.pipeline import Planned

#: What stands behind the name of a view in that of the table that its rows are caught in.
_CAUGHT = "__unit_test"
_NOT_SET = re.compile(r"the environment variable `(.+)` is not set")


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a pipeline, the file that it is of, and what its templates are given."""

    file: Path
    sql: str
    variables: tuple[tuple[str, str], ...]
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A planned text, and what is kept of it beside a state.

    `views` has the names of the tables that the rows of views are caught in, by theirs in lower case.
    """

    text: Text
    planned: Planned
    masked_sql: str
    views: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Versions:
    """Plans texts, each once, as the tests of a file ask for them."""

    _planned: dict[tuple[Text, tuple[str, ...], int], Version] = field(default_factory=dict)
    _projects: dict[Path, Project] = field(default_factory=dict)
    _texts: dict[Path, str] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)

    def texts(self, pipeline: Path, test: UnitTest) -> list[Text]:
        """The texts that the steps of a test run. Raises DiagnosticError (PRJ001, TST008)."""
        made = []
        text = Text(pipeline, self._read(pipeline, None), test.variables, test.env)
        for step in test.steps:
            if step.edit is not None:
                text = self._edited(text, step.edit)
            made.append(text)
        return made

    def version(self, text: Text, views: Sequence[str] = (), edits: int = 0) -> Version:
        """A text planned, with tables for those of `views` that it has; after so many `edits` they are other tables.

        Raises DiagnosticError with all that is wrong with the text.
        """
        key = (text, tuple(views), edits)
        if key not in self._planned:
            self._planned[key] = self._plan(text, views, edits)
        return self._planned[key]

    def edited_texts(self, files: Collection[str]) -> list[tuple[str, str]]:
        """The texts of files as they were planned last, where edits may have made others of them."""
        return [(file, self._last[file]) for file in files if file in self._last]

    def _plan(self, text: Text, views: Sequence[str], edits: int) -> Version:
        self._last[str(text.file)] = text.sql
        plain = self.version(text) if views else None
        known = () if plain is None else [v for v in views if plain.planned.catalog.view(v) is not None]
        if plain is not None and not known:
            return plain
        caught = {view.lower(): f"{view}{_CAUGHT}{edits}" for view in known}
        sql = text.sql + "".join(_catching(view, table) for view, table in caught.items())
        project = self._project(text.file.parent)
        env = dict(text.env)
        variables = {**project.variables, **dict(text.variables)}
        search_path = (project.root / "macros", project.root)
        while True:
            try:
                planned = plan_file(
                    sql,
                    file=str(text.file),
                    variables=variables,
                    env=env,
                    search_path=search_path,
                    catalogs=with_environment(sql, text.file, variables, env, search_path),
                )
            except DiagnosticError as error:
                name = _missing(error)
                if name is None or name in env:
                    raise
                env[name] = name
                continue
            self.files |= {Path(name) for name in planned.rendered.sources}
            return Version(text, planned, planned.masked_sql, caught)

    def _project(self, folder: Path) -> Project:
        if folder not in self._projects:
            self._projects[folder] = load_project(folder)
        return self._projects[folder]

    def _read(self, file: Path, at: Scalar | None) -> str:
        if file not in self._texts:
            try:
                self._texts[file] = file.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                span = None if at is None else at.span
                raise DiagnosticError(_unreadable(file, error, span), exit_code=2) from None
            self.files.add(file)
        return self._texts[file]

    def _edited(self, text: Text, edit: Edit) -> Text:
        made = text
        if edit.file is not None:
            file = Path(edit.file.span.file).parent / edit.file.text
            made = replace(made, file=file, sql=self._read(file, edit.file))
        for old, new in edit.replacements:
            made = replace(made, sql=_replaced(made, old, new.text))
        if edit.variables:
            changed = {name.text: value.text for name, value in edit.variables}
            made = replace(made, variables=tuple({**dict(made.variables), **changed}.items()))
        if made == text:
            refuse(
                edit.span,
                "TST008",
                "the edit changes nothing",
                help="write `file:`, `replace: {old text: new text}` or `vars:`",
            )
        return made


def _replaced(text: Text, old: Scalar, new: str) -> str:
    """The text with the one place where `old` stands replaced."""
    sought = old.text.strip("\n")
    found = text.sql.count(sought)
    if found != 1:
        what = "does not stand" if not found else f"stands {found} times"
        refuse(
            old.span,
            "TST008",
            f"this text {what} in {text.file}",
            help="write a text that stands there once, with the spaces and line ends that it has there",
        )
    return text.sql.replace(sought, new.strip("\n"))


def _catching(view: str, table: str) -> str:
    """A statement that writes the rows of a view into a table: one that can have any rows, at a place of its own."""
    place = quote_literal(f"{table}.duckdb")
    return (
        f"\n;\nCREATE TABLE {quote_identifier(table)} WITH ('connector' = 'duckdb', 'path' = {place}) "
        f"AS SELECT * FROM {quote_identifier(view)};"
    )


def _missing(error: DiagnosticError) -> str | None:
    """The environment variable that is not set, if that is all that is wrong."""
    found = [_NOT_SET.fullmatch(d.message) for d in error.diagnostics if d.code == "TPL006"]
    return found[0][1] if len(error.diagnostics) == 1 and found and found[0] is not None else None


def _unreadable(file: Path, error: Exception, at: Span | None) -> Diagnostic:
    near = sorted(str(p) for p in file.parent.glob("*.sql")) if file.parent.is_dir() else []
    why = "does not exist" if isinstance(error, FileNotFoundError) else "can't be read"
    return Diagnostic(
        "PRJ001",
        f"{file} {why}",
        at,
        (f"there is {', '.join(near[:5])}",) if near else (),
        "write the path from the folder of the test file"
        if at is not None
        else "name the pipeline in the test file: `pipeline: ` and a path from its folder",
    )
