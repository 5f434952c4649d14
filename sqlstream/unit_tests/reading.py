"""A test file read: from YAML to a `UnitTestFile`, with every mistake of its form at its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sqlstream.unit_tests.fields import Fields, fields, items, one_of
from sqlstream.unit_tests.model import Edit, RowsFormat, Step, TableRows, UnitTest, UnitTestFile, WrittenRows
from sqlstream.unit_tests.yaml_nodes import Items, Mapping, Node, Scalar, read_yaml
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, refuse, suggestion

SUFFIX = ".test.yaml"

FILE_KEYS = ("version", "pipeline", "vars", "env_vars", "unit_tests")
_EXPECTED = ("expect", "late", "dead_letters", "plan", "error")
STEP_KEYS = ("name", "edit", "clock", "given", "watermark", "drain", *_EXPECTED)
TEST_KEYS = (
    "name",
    "description",
    "model",
    "vars",
    "env_vars",
    "clock",
    "steps",
    "given",
    "drain",
    *_EXPECTED,
)
EDIT_KEYS = ("file", "replace", "vars", "accept", "rewrite")
ROWS_KEYS = ("rows", "changes", "format", "fixture", "ordered")
_REF = re.compile(r"""(?:ref|source)\(\s*(?:['"][^'"]*['"]\s*,\s*)?['"]([^'"]+)['"]\s*\)""")


def read_tests(path: Path) -> UnitTestFile:
    """The tests of a file. Raises DiagnosticError (TST001, TST002, TST006, TST007) with all that is wrong with its form."""
    mistakes: list[Diagnostic] = []
    found = fields(read_yaml(path), "a test file", FILE_KEYS, mistakes)
    listed = found.get("unit_tests")
    if listed is None:
        mistakes.append(
            Diagnostic(
                "TST002",
                "the file has no tests",
                found.mapping.span,
                help="write them as a list below `unit_tests:`",
            )
        )
    tests: list[UnitTest] = []
    for node in () if listed is None else items(listed, "`unit_tests`").items:
        try:
            tests.append(_TestReader(path, found, mistakes).test(node))
        except DiagnosticError as error:
            mistakes += error.diagnostics
    mistakes += _twice(tests)
    if mistakes:
        raise DiagnosticError(*mistakes)
    return UnitTestFile(path, _pipeline(path, found.text("pipeline")), tuple(tests))


def _pipeline(path: Path, named: str | None) -> Path:
    """The pipeline of a test file: the one that it names, else the one of its own name."""
    return path.parent / (named if named is not None else path.name.removesuffix(SUFFIX) + ".sql")


def _twice(tests: list[UnitTest]) -> Iterator[Diagnostic]:
    seen: dict[str, UnitTest] = {}
    for test in tests:
        first = seen.setdefault(test.name, test)
        if first is not test:
            yield Diagnostic(
                "TST007",
                f"two tests are called `{test.name}`",
                test.span,
                (f"the first is on line {first.span.line}",),
                "give one of them another name",
            )


class _TestReader:
    """Reads one test of a file."""

    def __init__(self, path: Path, file: Fields, mistakes: list[Diagnostic]) -> None:
        self._path = path
        self._file = file
        self._mistakes = mistakes

    def test(self, node: Node) -> UnitTest:
        found = fields(node, "a test", TEST_KEYS, self._mistakes)
        name = found.scalar("name")
        if name is None or not name.text.strip():
            refuse(
                found.mapping.span, "TST002", "the test has no name", help="write `name:` and what is tested"
            )
        return UnitTest(
            name.text.strip(),
            name.span,
            tuple(self._steps(found)),
            found.scalar("model"),
            self._texts(found, "vars"),
            self._texts(found, "env_vars"),
        )

    def _texts(self, test: Fields, key: str) -> tuple[tuple[str, str], ...]:
        """What the file sets, and what the test sets over it."""
        pairs = (*self._file.pairs(key), *test.pairs(key))
        return tuple({name.text: value.text for name, value in pairs}.items())

    def _steps(self, test: Fields) -> Iterator[Step]:
        listed = test.get("steps")
        if listed is None:
            # As a unit test of dbt: rows are given, the input ends, and rows are expected.
            yield self._step(test, "", drained="drain" not in {key.text for key, _ in test.mapping})
            return
        beside = [key for key, _ in test.mapping if key.text in ("given", "drain", *_EXPECTED)]
        if beside:
            refuse(
                beside[0].span,
                "TST002",
                f"`{beside[0].text}` stands beside `steps`",
                help="write it in one of the steps",
            )
        found = items(listed, "`steps`").items
        if not found:
            refuse(listed.span, "TST002", "the test has no steps", help="begin the first one with `- given:`")
        for number, node in enumerate(found, 1):
            step = fields(node, "a step", STEP_KEYS, self._mistakes)
            name = step.text("name")
            clock = test.scalar("clock") if number == 1 and step.get("clock") is None else None
            yield self._step(step, f"step {number}" + (f" ({name})" if name else ""), clock=clock)

    def _step(self, step: Fields, label: str, *, drained: bool = False, clock: Scalar | None = None) -> Step:
        letters = step.get("dead_letters")
        edit = step.get("edit") if label else None
        return Step(
            label,
            step.mapping.span,
            tuple(self._tables(step, "given", "input")),
            step.pairs("watermark") if label else (),
            step.scalar("clock") or clock,
            None if edit is None else self._edit(edit),
            tuple(self._tables(step, "expect", "output")),
            tuple(self._tables(step, "late", "input")),
            None if letters is None else self._rows(letters, "dead_letters"),
            step.pairs("plan"),
            drained or step.flag("drain"),
            step.scalar("error"),
        )

    def _tables(self, step: Fields, key: str, named: str) -> Iterator[TableRows]:
        """Tables with rows: `{table: rows}`, or a list whose items name the table by `named`."""
        node = step.get(key)
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return
        if isinstance(node, Items):
            for item in node.items:
                found = fields(item, f"an item of `{key}`", (named, *ROWS_KEYS), self._mistakes)
                table = found.scalar(named)
                if table is None and key != "expect":
                    refuse(
                        item.span,
                        "TST002",
                        f"this does not say which table `{key}` is about",
                        help=f"write `{named}: `",
                    )
                yield TableRows(None if table is None else _bare(table), self._rows_of(found, key))
            return
        if not isinstance(node, Mapping):
            refuse(
                node.span,
                "TST002",
                f"`{key}` must have tables and their rows",
                help=f"write `{key}: {{table: […]}}`",
            )
        if key == "expect" and node.entries and all(k.text in ROWS_KEYS for k, _ in node):
            yield TableRows(None, self._rows(node, "expect"))
            return
        for table, rows in node:
            yield TableRows(_bare(table), self._rows(rows, table.text))

    def _rows(self, node: Node, what: str) -> WrittenRows:
        """Rows as a list, or with keys that say more."""
        if isinstance(node, Mapping):
            return self._rows_of(fields(node, f"`{what}`", ROWS_KEYS, self._mistakes), what)
        listed = items(node, f"the rows of `{what}`")
        return WrittenRows(RowsFormat.DICT, listed, "", listed.span)

    def _rows_of(self, found: Fields, what: str) -> WrittenRows:
        format_ = found.scalar("format")
        kind = None
        if format_ is not None:
            kind = RowsFormat(one_of(format_, "`format`", [f.value for f in RowsFormat]))
        given = [key for key in ("rows", "changes", "fixture") if found.get(key) is not None]
        changes = "changes" in given
        if not given:
            refuse(
                found.mapping.span,
                "TST002",
                f"`{what}` has no rows",
                help="write `rows: []` where there are none",
            )
        if len(given) > 1 and given != ["changes", "fixture"]:
            refuse(found.mapping.span, "TST002", f"`{given[0]}` and `{given[1]}` exclude each other")
        ordered = found.flag("ordered")
        fixture = found.scalar("fixture")
        if fixture is not None:
            return self._fixture(fixture, kind, changes=changes, ordered=ordered)
        node = found.get(given[0])
        if isinstance(node, Scalar) and not node.is_null:
            if kind not in (RowsFormat.CSV, RowsFormat.SQL):
                refuse(
                    node.span,
                    "TST002",
                    f"the rows of `{what}` are a text, and nothing says of which format",
                    help="write `format: csv` or `format: sql` beside it, or the rows as a list",
                )
            return WrittenRows(kind, None, node.text, _inside(node), changes=changes, ordered=ordered)
        listed = items(node or found.mapping, f"the rows of `{what}`")
        if kind not in (None, RowsFormat.DICT):
            refuse(
                listed.span,
                "TST002",
                f"rows in the format '{kind}' are a text",
                help=f"write `{given[0]}: |`",
            )
        return WrittenRows(RowsFormat.DICT, listed, "", listed.span, changes=changes, ordered=ordered)

    def _fixture(self, name: Scalar, kind: RowsFormat | None, *, changes: bool, ordered: bool) -> WrittenRows:
        """Rows of a file beside the test file."""
        path = self._path.parent / name.text
        by_name = {".csv": RowsFormat.CSV, ".sql": RowsFormat.SQL}.get(path.suffix.lower())
        kind = kind or by_name
        if kind not in (RowsFormat.CSV, RowsFormat.SQL):
            refuse(
                name.span,
                "TST006",
                f"`{name.text}` is neither a .csv nor a .sql file",
                help="write `format: csv`",
            )
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            refuse(
                name.span,
                "TST006",
                f"can't read `{name.text}`: {why}",
                notes=(f"`{path}` was looked for: the path is relative to the folder of the test file",),
                help=suggestion(name.text, [p.name for p in self._path.parent.glob("*.[cs][sq][vl]")]),
            )
        return WrittenRows(kind, None, text, Span(str(path), 1, 1), str(path), changes, ordered)

    def _edit(self, node: Node) -> Edit:
        if isinstance(node, Scalar):
            return Edit(node.span, file=node)
        found = fields(node, "an edit", EDIT_KEYS, self._mistakes)
        listed = found.get("replace")
        replaced: list[tuple[Scalar, Scalar]] = []
        if isinstance(listed, Items):
            for item in listed.items:
                one = fields(item, "an item of `replace`", ("text", "by"), self._mistakes)
                old, new = one.scalar("text"), one.scalar("by")
                if old is None or new is None:
                    refuse(
                        item.span,
                        "TST002",
                        "a replacement has `text` and `by`",
                        help="write {text: …, by: …}",
                    )
                replaced.append((old, new))
        elif listed is not None:
            replaced += found.pairs("replace")
            for old, new in replaced:
                if new.is_null:
                    refuse(
                        old.span,
                        "TST002",
                        "nothing stands here in place of this text",
                        help="put a text that has a comma or a colon in quotes; write '' to leave it out",
                    )
        return Edit(
            found.mapping.span,
            found.scalar("file"),
            tuple(replaced),
            found.pairs("vars"),
            found.words("accept"),
            found.words("rewrite"),
        )


def _bare(name: Scalar) -> Scalar:
    """A table's name, without the `ref('…')` or `source('…', '…')` of dbt.

    >>> _bare(Scalar("ref('orders')", True, Span("f", 1, 1))).text
    'orders'
    """
    found = _REF.fullmatch(name.text.strip())
    return name if found is None else Scalar(found[1], name.plain, name.span)


def _inside(text: Scalar) -> Span:
    """Where the first line of a text stands: below the line with `|`, if it is a block."""
    span = text.span
    return Span(span.file, span.line + 1, 1) if "\n" in text.text else span
