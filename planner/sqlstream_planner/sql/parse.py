"""A pipeline file -> statements: templating, then one statement after the other, all errors at once."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlglot import exp
from sqlglot.errors import TokenError

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, refuse
from sqlstream_planner.sql.chunks import chunks
from sqlstream_planner.sql.dialect import SqlSyntaxError, range_of
from sqlstream_planner.sql.dialect.lexer import HintBook, lex, unreadable
from sqlstream_planner.sql.mistakes import help_for
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.sql.statement_reader.reader import StatementReader
from sqlstream_planner.sql.statements import (
    Statement,
)
from sqlstream_planner.sql.template import render_template


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed file: its statements in order, and the text that they were read from."""

    statements: tuple[Statement, ...]
    rendered: RenderedSql


def parse_file(
    source: Path | str,
    *,
    file: str | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    search_path: Sequence[Path] = (),
) -> Script:
    """Render and parse a file (a Path), or text given as a str under the name `file`.

    Raises DiagnosticError with one diagnostic for each statement that does not parse, or the first one of
    the template.

    >>> parse_file("SET 'pipeline.name' = 'x'; SELECT 1").statements[0].key
    'pipeline.name'
    """
    return parse_rendered(
        rendered_file(source, file=file, variables=variables, env=env, search_path=search_path)
    )


def rendered_file(
    source: Path | str,
    *,
    file: str | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    search_path: Sequence[Path] = (),
) -> RenderedSql:
    """The text of a file after templating. Raises DiagnosticError: SQL000 (exit code 2), and TPL… for templates."""
    if isinstance(source, Path):
        name = str(source) if file is None else file
        try:
            content = source.read_bytes()
        except OSError as error:
            raise DiagnosticError(
                Diagnostic("SQL000", f"can't read `{source}`: {error.strerror or error}"), exit_code=2
            ) from None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DiagnosticError(_not_utf8(name, content, error), exit_code=2) from None
    else:
        name, text = file or "<sql>", source
    return render_template(text, name, variables=variables, env=env, search_path=search_path)


def _not_utf8(file: str, content: bytes, error: UnicodeDecodeError) -> Diagnostic:
    """Where a file is no UTF-8, and what it looks like."""
    start = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    before = content[start : start + error.start].decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    span = Span(file, before.count("\n") + 1, len(before) - before.rfind("\n"), 1)
    encoding = "UTF-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else None
    return Diagnostic(
        "SQL000",
        f"the file is not UTF-8 text: the byte 0x{content[start + error.start]:02x} can't stand here",
        span,
        notes=(f"it starts as {encoding} does",) if encoding else (),
        help="save it as UTF-8" + (f", as with `iconv -f {encoding} -t UTF-8`" if encoding else ""),
    )


def parse_rendered(rendered: RenderedSql) -> Script:
    """Parse rendered text. Raises DiagnosticError with one diagnostic for each statement that fails."""
    sql = rendered.text
    try:
        lexed = lex(sql)
    except TokenError as error:
        start, end = unreadable(sql, error)
        help_ = "bytes are written as pairs of hex digits: x'00ff'" if end - start > 1 else None
        refuse(rendered.span(start, end), "SQL001", f"can't read `{sql[start:end]}`", help=help_)
    hints = HintBook(lexed.hints)
    problems: list[Diagnostic] = []
    statements: list[Statement] = []
    types: dict[str, exp.DataType] = {}
    for chunk in chunks(lexed.tokens, len(sql)):
        reader = StatementReader(rendered, hints, types)
        try:
            statements.append(reader.read(chunk))
        except SqlSyntaxError as failure:
            help_ = failure.help or help_for(failure, chunk.tokens)
            span = rendered.span(failure.start, failure.end)
            problems.append(Diagnostic(failure.code, failure.message, span, (), help_))
            hints.take(chunk.start, chunk.stop)
    if lexed.unclosed is not None:
        problems.append(_unclosed(rendered, lexed.unclosed.mark, lexed.unclosed.start))
    if problems:
        raise DiagnosticError(*problems)
    return Script(tuple(statements), rendered)


def span_of(node: exp.Expr, rendered: RenderedSql) -> Span:
    """Where `node` is in the user's file; the start of the file for a node that nobody wrote."""
    found = range_of(node)
    return rendered.span(*found) if found is not None else rendered.span(0, 1)


def _unclosed(rendered: RenderedSql, mark: str, start: int) -> Diagnostic:
    what = {"'": "string", '"': "name", "`": "name", "/*": "comment"}[mark]
    close = "*/" if mark == "/*" else mark
    span = rendered.span(start, start + len(mark))
    return Diagnostic("SQL007", f"this {what} is never closed", span, (), f"close it with {close}")
