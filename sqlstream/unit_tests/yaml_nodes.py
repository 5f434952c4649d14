"""YAML as nodes that know where they stand: the text of scalars is kept as it is written, and typed by the table's columns.

YAML's own types are not used: `no`, `12:30` and `2024-01-01` are text until a column says what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value: its text, and whether it stands there without quotes."""

    text: str
    plain: bool
    span: Span

    @property
    def is_null(self) -> bool:
        """Whether it is NULL: `null`, `~` or nothing, without quotes."""
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with values, in the order in which they are written; no key stands twice."""

    entries: tuple[tuple[Scalar, Node], ...]
    span: Span

    def __iter__(self) -> Iterator[tuple[Scalar, Node]]:
        return iter(self.entries)

    def get(self, name: str) -> Node | None:
        """The value of a key, None if it is not there."""
        return next((value for key, value in self.entries if key.text == name), None)


Node: TypeAlias = Scalar | Items | Mapping


def read_yaml(path: Path) -> Node:
    """The one document of a file. Raises DiagnosticError (TST001) for a file that can't be read, or is no YAML."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DiagnosticError(
            Diagnostic("TST001", f"can't read `{path}`: {error.strerror or error}"), exit_code=2
        ) from None
    except UnicodeDecodeError:
        raise DiagnosticError(
            Diagnostic("TST001", f"`{path}` is not UTF-8 text", help="save it as UTF-8"), exit_code=2
        ) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, file: str) -> Node:
    """The one document of a text. Raises DiagnosticError (TST001).

    >>> parse_yaml("a: [1, 'no']", "x.test.yaml").get("a").items[1].plain
    False
    """
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except RecursionError:
        raise _too_deep(file) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        span = None if mark is None else Span(file, mark.line + 1, mark.column + 1)
        why = " ".join(part for part in (error.problem, error.context) if part)
        raise DiagnosticError(
            Diagnostic("TST001", f"this is no YAML: {why}", span, help=_help(error.problem or ""))
        ) from None
    except yaml.YAMLError as error:
        raise DiagnosticError(
            Diagnostic("TST001", f"this is no YAML: {str(error).splitlines()[0]}", Span(file, 1, 1))
        ) from None
    if node is None:
        raise DiagnosticError(
            Diagnostic("TST001", "the file is empty", Span(file, 1, 1), help="write `unit_tests:` and a test")
        )
    try:
        return _Reader(file, text.splitlines()).node(node)
    except RecursionError:
        raise _too_deep(file) from None


def _too_deep(file: str) -> DiagnosticError:
    message = "the file has too many lists and keys within each other"
    return DiagnosticError(Diagnostic("TST001", message, Span(file, 1, 1)))


class _Reader:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self._file = file
        self._lines = lines
        self._open: set[int] = set()

    def node(self, node: Any) -> Node:
        span = self._span(node)
        if isinstance(node, yaml.ScalarNode):
            return Scalar(node.value, not node.style, span)
        if id(node) in self._open:
            raise DiagnosticError(
                Diagnostic(
                    "TST001",
                    "what is named here has itself in it",
                    span,
                    help="an alias `*name` stands behind what `&name` names, and not in it",
                )
            )
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return Items(tuple(self.node(item) for item in node.value), span)
            return Mapping(tuple(self._entries(node)), span)
        finally:
            self._open.discard(id(node))

    def _entries(self, node: Any) -> Iterator[tuple[Scalar, Node]]:
        """The entries, with those that `<<` merges in where the mapping has no such key itself."""
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: dict[str, tuple[Scalar, Node]] = {}
        for key_node, value_node in node.value:
            key, value = self.node(key_node), self.node(value_node)
            if not isinstance(key, Scalar):
                raise DiagnosticError(Diagnostic("TST002", "a key must be a word", key.span))
            if key.text == _MERGE:
                for one in value.items if isinstance(value, Items) else (value,):
                    if not isinstance(one, Mapping):
                        raise DiagnosticError(
                            Diagnostic(
                                "TST002",
                                "`<<` takes keys and values of another place",
                                one.span,
                                help="write `<<: *name`",
                            )
                        )
                    merged = {k.text: (k, v) for k, v in one} | merged
                continue
            if key.text in own:
                first = own[key.text][0].span.line
                raise DiagnosticError(
                    Diagnostic(
                        "TST002", f"the key `{key.text}` stands twice", key.span, (f"first on line {first}",)
                    )
                )
            own[key.text] = (key, value)
        yield from (merged | own).values()

    def _span(self, node: Any) -> Span:
        start, end = node.start_mark, node.end_mark
        length = end.column - start.column
        if end.line != start.line or not isinstance(node, yaml.ScalarNode):
            line = self._lines[start.line] if start.line < len(self._lines) else ""
            length = len(line.rstrip()) - start.column if start.line != end.line else length
        return Span(self._file, start.line + 1, start.column + 1, max(length, 1))


def _help(problem: str) -> str | None:
    if "\\t" in problem or "tab" in problem:
        return "indent with spaces"
    if "mapping values are not allowed" in problem:
        return "put the value in quotes if it has `: ` in it, and see that the lines above are indented alike"
    return None
