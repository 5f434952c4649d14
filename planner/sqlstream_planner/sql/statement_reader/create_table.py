"""CREATE TABLE: columns, watermark, primary key, options and LIKE."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.sql.datatypes import exact_type, seconds_digits
from sqlstream_planner.sql.dialect import TUPLE, SqlSyntaxError, range_of
from sqlstream_planner.sql.qualified import name_of
from sqlstream_planner.sql.statement_reader.cursor import Cursor
from sqlstream_planner.sql.statement_reader.with_options import read_with
from sqlstream_planner.sql.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    Like,
    LikeFeature,
    LikeStrategy,
    MetadataColumn,
    Option,
    PhysicalColumn,
    PrimaryKey,
    Watermark,
)


class TableReader:
    """Reads a CREATE TABLE."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def read(self, start: int, *, temporary: bool) -> CreateTable:
        """The statement that began at `start`, behind CREATE TABLE. Raises SqlSyntaxError."""
        p = self._cursor.parser
        if_not_exists = self._cursor.if_not_exists()
        name_start = p.here
        name = p.table_name("the name of the table")
        name_span = self._cursor.since(name_start)
        body = _TableBody()
        if p.take("("):
            while not (p.at(")") and not body.started):
                self._element(body)
                body.started = True
                if not p.take(","):
                    break
            p.expect(")", after="the columns")
        if p.take("COMMENT"):
            p.string("a comment")
        if p.at("DISTRIBUTED"):
            p.fail_at_token(p._curr, "DISTRIBUTED BY can't be used", "remove it: the planner decides")
        partitioned: tuple[str, ...] = ()
        partition_span: Span | None = None
        at = p.here
        if p._match(TokenType.PARTITION_BY):
            partitioned = self._cursor.names("a column to partition by")
            partition_span = self._cursor.since(at)
        options: tuple[Option, ...] = ()
        options_span = name_span
        at = p.here
        if p.take("WITH"):
            options = read_with(self._cursor)
            options_span = self._cursor.span(at, at + 4)
        like = self._like() if p.at("LIKE") else None
        as_select: exp.Query | None = None
        if p.take("AS"):
            as_select = self._cursor.query()
        return CreateTable(
            name=name_of(name),
            columns=tuple(body.columns),
            watermark=body.watermark,
            primary_key=body.primary_key,
            partitioned_by=partitioned,
            options=options,
            like=like,
            as_select=as_select,
            if_not_exists=if_not_exists,
            temporary=temporary,
            span=self._cursor.since(start),
            name_span=name_span,
            options_span=options_span,
            partition_span=partition_span,
        )

    def _element(self, body: _TableBody) -> None:
        p = self._cursor.parser
        start = p.here
        if p.at("WATERMARK", "FOR"):
            if body.watermark is not None:
                self._twice("WATERMARK")
            p.take("WATERMARK", "FOR")
            body.watermark = self._watermark(start)
            return
        if p.take("CONSTRAINT"):
            p.identifier("the name of the constraint")
            if not p.at("PRIMARY KEY"):
                p.fail_here("PRIMARY KEY", after="CONSTRAINT name")
        if p.at("UNIQUE", "("):
            p.fail_at_token(p._curr, "UNIQUE can't be used", "write PRIMARY KEY (…) NOT ENFORCED")
        if p.at("PRIMARY KEY"):
            if body.primary_key is not None:
                self._twice("PRIMARY KEY")
            p._advance()
            columns = self._cursor.names("a column of the key")
            self._not_enforced()
            body.primary_key = PrimaryKey(columns, self._cursor.since(start))
            return
        name = p.identifier("a column, WATERMARK FOR or PRIMARY KEY")
        name_span = self._cursor.since(start)
        if p.take("AS"):
            expression = p.expression_here("an expression")
            body.columns.append(ComputedColumn(name.name, expression, name_span))
        else:
            body.columns.append(self._typed_column(body, name.name, name_span))
        if p.take("COMMENT"):
            p.string("a comment")

    def _typed_column(self, body: _TableBody, name: str, span: Span) -> Column:
        p = self._cursor.parser
        start = p.here
        if p.at(",") or p.at(")") or p.at_end:
            p.fail_here(f"a type, or AS and an expression, for column `{name}`")
        data_type = p.data_type(f"a type for column `{name}`")
        type_ = self._type(data_type, start)
        precision = seconds_digits(data_type) if type_.is_timestamp else None
        nullable = True
        key: str | None = None
        virtual = False
        while True:
            if p.take("NOT", "NULL"):
                nullable = False
            elif p.take("NULL"):
                nullable = True
            elif p.at("PRIMARY KEY"):
                if body.primary_key is not None:
                    self._twice("PRIMARY KEY")
                p._advance()
                self._not_enforced()
                body.primary_key = PrimaryKey((name,), span)
                nullable = False
            elif key is None and p.take("METADATA"):
                key = p.string("the metadata's key").name if p.take("FROM") else name
            elif key is not None and p.take("VIRTUAL"):
                virtual = True
            else:
                break
        if not (p.at(",") or p.at(")") or p.at("COMMENT")):
            p.fail_at_token(p._curr or None, f"expected a comma or `)` after column `{name}`")
        if key is not None:
            return MetadataColumn(name, type_, nullable, precision, key, virtual, span)
        exact = None if type_.is_timestamp else exact_type(data_type)
        return PhysicalColumn(name, type_, nullable, precision, span, exact if exact != str(type_) else None)

    def _type(self, node: exp.DataType, start: int) -> SqlType:
        unnamed = next((t for t in node.find_all(exp.DataType) if t.args.get("kind") == TUPLE), None)
        if unnamed is not None:
            at = range_of(unnamed) or (start, self._cursor.parser.last_end)
            raise SqlSyntaxError(
                "the fields of a table's column have names",
                *at,
                help="write ROW<a INT, b STRING>",
                code="SQL003",
            )
        made = self._cursor.type_of(node, start)
        if made.has(Kind.NULL):
            raise SqlSyntaxError(
                'a column can\'t be declared as "NULL", the type of what is never there',
                start,
                self._cursor.parser.last_end,
                help="write the type that a value would have, such as INT",
                code="SQL003",
            )
        return made

    def _not_enforced(self) -> None:
        p = self._cursor.parser
        if p.take("NOT", "ENFORCED"):
            return
        p.fail_at_token(
            p._curr if p.at("ENFORCED") else p._prev,
            "a primary key is not checked on a stream",
            "write PRIMARY KEY (…) NOT ENFORCED",
        )

    def _twice(self, what: str) -> NoReturn:
        self._cursor.parser.fail_at_token(self._cursor.parser._curr, f"a table has one {what} only")

    def _watermark(self, start: int) -> Watermark:
        p = self._cursor.parser
        column_start = p.here
        parts = [p.identifier("the time column").name]
        while p.take("."):
            parts.append(p.identifier("a field").name)
        column_span = self._cursor.since(column_start)
        if not p.take("AS"):
            p.fail_at_token(
                p._curr or None,
                "expected `AS` after WATERMARK FOR column",
                f"write WATERMARK FOR {'.'.join(parts)} AS {'.'.join(parts)} - INTERVAL '5' SECOND",
            )
        expression = p.expression_here("an expression, such as ts - INTERVAL '5' SECOND")
        return Watermark(tuple(parts), expression, self._cursor.since(start), column_span)

    def _like(self) -> Like:
        p = self._cursor.parser
        start = p.here
        p.take("LIKE")
        source = p.table_name("the table that this one is like")
        rules: list[tuple[LikeStrategy, LikeFeature]] = []
        if p.take("("):
            while not p.at(")"):
                strategy = next((s for s in LikeStrategy if p.take(s.value)), None)
                if strategy is None:
                    p.fail_here("INCLUDING, EXCLUDING or OVERWRITING")
                feature = next((f for f in LikeFeature if p.take(f.value)), None)
                if feature is None:
                    p.fail_here(" or ".join([", ".join(list(LikeFeature)[:-1]), list(LikeFeature)[-1]]))
                rules.append((strategy, feature))
            p.expect(")")
        return Like(name_of(source), tuple(rules), self._cursor.since(start))


class _TableBody:
    """What has been read of a table's parentheses."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.watermark: Watermark | None = None
        self.primary_key: PrimaryKey | None = None
        self.started = False
