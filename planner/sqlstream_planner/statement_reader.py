"""One statement: the tokens up to a semicolon -> the statement that they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sqlstream_operators.types import SqlType
from sqlstream_planner.chunks import Chunk
from sqlstream_planner.datatypes import sql_type_of
from sqlstream_planner.diagnostics import Diagnostic, Span, did_you_mean
from sqlstream_planner.dialect import SqlStream, SqlSyntaxError, range_of
from sqlstream_planner.dialect.lexer import HintBook
from sqlstream_planner.dialect.parser import SqlStreamParser
from sqlstream_planner.dialect.positions import set_range
from sqlstream_planner.problems import TypeProblem
from sqlstream_planner.rendered import RenderedSql
from sqlstream_planner.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    CreateView,
    InsertInto,
    Like,
    LikeFeature,
    LikeStrategy,
    MetadataColumn,
    Option,
    PhysicalColumn,
    PrimaryKey,
    Select,
    SetOption,
    Statement,
    StatementSet,
    Unsupported,
    Watermark,
)

_DIALECT = SqlStream()
_UNSUPPORTED: dict[str, str | None] = {
    "CREATE FUNCTION": "write the expression in the query, or as a Jinja macro",
    "CREATE CATALOG": "tables are declared in the file with CREATE TABLE",
    "CREATE DATABASE": "tables are declared in the file with CREATE TABLE",
    "CREATE MODEL": None,
    "CREATE MATERIALIZED TABLE": "write CREATE TABLE and INSERT INTO",
    "DROP": "remove the CREATE statement from the file instead",
    "ALTER": "change the CREATE statement in the file instead",
    "USE": "tables are declared in the file with CREATE TABLE",
    "SHOW": "`sqlstream explain` shows what a file has",
    "DESCRIBE": "`sqlstream explain` shows what a file has",
    "DESC": "`sqlstream explain` shows what a file has",
    "EXPLAIN": "run `sqlstream explain` on the file",
    "ANALYZE": None,
    "RESET": "remove the SET statement from the file instead",
    "UPDATE": "streams are changed by INSERT INTO … SELECT",
    "DELETE": "streams are changed by INSERT INTO … SELECT",
    "TRUNCATE": None,
    "MERGE": None,
    "CALL": None,
    "LOAD": None,
    "UNLOAD": None,
    "ADD JAR": None,
    "REMOVE JAR": None,
    "COMPILE": None,
    "QUIT": None,
    "EXIT": None,
    "STOP": "stop the running `sqlstream run` with Ctrl-C",
    "COPY": None,
    "ATTACH": None,
    "INSTALL": None,
    "PRAGMA": None,
}
_CONFLICTS = ("NOTHING", "ERROR", "DEDUPLICATE")
_STARTS = ("SELECT", "INSERT INTO", "CREATE TABLE", "CREATE VIEW", "SET", "WITH", "EXECUTE STATEMENT SET")


def _conflict(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens of ON CONFLICT DO … at the end of a statement (to sqlglot an ON belongs to a join), and the others."""
    words = [token.text.upper() for token in tokens[-4:]]
    if words[:3] == ["ON", "CONFLICT", "DO"] and words[-1] in _CONFLICTS:
        return tokens[-4:], tokens[:-4]
    return (), tokens


class StatementReader:
    """Reads the tokens of one statement."""

    def __init__(self, rendered: RenderedSql, hints: HintBook) -> None:
        self.rendered = rendered
        self.hints = hints
        self.p = SqlStreamParser(dialect=_DIALECT)

    def read(self, chunk: Chunk) -> Statement:
        """The statement. Raises SqlSyntaxError."""
        if chunk.parts is None:
            return self._single(chunk)
        inserts: list[InsertInto] = []
        for part in chunk.parts:
            statement = self._single(part)
            if not isinstance(statement, InsertInto):
                raise SqlSyntaxError(
                    "a statement set holds INSERT statements only",
                    part.start,
                    part.tokens[0].end + 1,
                    help="move the other statements before EXECUTE STATEMENT SET",
                )
            inserts.append(statement)
        if not chunk.closed:
            raise SqlSyntaxError(
                "this statement set is never closed",
                chunk.start,
                chunk.tokens[min(2, len(chunk.tokens) - 1)].end + 1,
                help="write END; behind its last INSERT",
                code="SQL002",
            )
        if not inserts:
            raise SqlSyntaxError("this statement set is empty", chunk.start, chunk.tokens[-1].end + 1)
        return StatementSet(tuple(inserts), self._span(chunk.start, chunk.end))

    def _single(self, chunk: Chunk) -> Statement:
        p, tokens = self.p, chunk.tokens
        for token, following in pairwise(tokens):
            touching = token.end + 1 == following.start
            if touching and token.token_type == TokenType.NUMBER and following.token_type == TokenType.VAR:
                raise SqlSyntaxError(
                    f"`{token.text}{following.text}` is neither a number nor a name",
                    token.start,
                    following.end + 1,
                    help=f"write `{token.text}{following.text}` in backticks if it is a name",
                )
        conflict, tokens = _conflict(tokens)
        p.start(tokens, self.rendered.text, self.hints, chunk.stop)
        statement = self._statement()
        if p.at("ON", "CONFLICT"):
            p.fail_at_token(
                p._curr, None, f"write ON CONFLICT DO {', DO '.join(_CONFLICTS[:2])} or DO DEDUPLICATE"
            )
        if conflict:
            if not isinstance(statement, InsertInto):
                p.fail_at_token(conflict[0], "ON CONFLICT belongs to INSERT INTO")
            statement = replace(
                statement,
                conflict=conflict[-1].text.upper(),
                conflict_span=self._span(conflict[0].start, conflict[-1].end + 1),
            )
        if not p.at_end:
            p.fail_at_token(p._curr, None)
        left = self.hints.take(chunk.start, chunk.stop)
        if left:
            raise SqlSyntaxError(
                "a hint has no meaning here",
                left[0].start - 3,
                left[0].end + 2,
                help="hints stand behind SELECT or behind a table's name",
                code="SQL008",
            )
        return statement

    def _span(self, start: int, end: int) -> Span:
        return self.rendered.span(start, end)

    def _since(self, start: int) -> Span:
        return self.rendered.span(start, self.p.last_end)

    def _statement(self) -> Statement:
        p = self.p
        start = p.here
        if p.take("SET"):
            return self._set(start)
        if p.at("INSERT") or p.at("EXECUTE", "INSERT"):
            p.take("EXECUTE")
            p.take("INSERT")
            return self._insert(start)
        if p.take("CREATE"):
            return self._create(start)
        if p.at("SELECT") or p.at("WITH") or p.at("VALUES") or p.at("FROM") or p.at("("):
            query = self._query()
            return Select(query, self._since(start))
        for kind, hint in _UNSUPPORTED.items():
            if p.at(*kind.split()):
                return self._unsupported(kind, hint, start)
        token = p._curr
        near = did_you_mean(token.text, [s.split()[0] for s in _STARTS])
        raise SqlSyntaxError(
            f"no statement starts with `{self.rendered.text[token.start : token.end + 1]}`",
            token.start,
            token.end + 1,
            help=f"did you mean {near}?" if near else "a statement starts with " + ", ".join(_STARTS),
        )

    def _unsupported(self, kind: str, hint: str | None, start: int) -> Unsupported:
        p = self.p
        words = kind.split()
        span = self._span(start, p._tokens[p._index + len(words) - 1].end + 1 if p._index >= 0 else start + 1)
        while not p.at_end:
            p._advance()
        diagnostic = Diagnostic("SQL009", f"{kind} can't be run in a pipeline file", span, (), hint)
        return Unsupported(kind, diagnostic, self._since(start))

    def _query(self) -> exp.Query:
        p = self.p
        start = p.here
        query = p.query()
        if isinstance(query, exp.Values):
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
            set_range(query, start, p.last_end)
        if not isinstance(query, exp.Query):
            raise SqlSyntaxError("this is not a query", start, p.last_end)
        for select in query.find_all(exp.Select):
            if not select.expressions:
                at = range_of(select) or (start, start + 1)
                raise SqlSyntaxError("this SELECT selects nothing", at[0], at[0] + 6, help="write SELECT *")
        holder = query.find(exp.Placeholder, exp.Parameter)
        if holder is not None:
            at = range_of(holder) or (start, start + 1)
            raise SqlSyntaxError(
                "a query has no parameters", *at, help="write {{ var('name') }} and pass --var name=…"
            )
        return query

    # ---- SET, INSERT ------------------------------------------------------------

    def _set(self, start: int) -> Statement:
        p = self.p
        if p.at_end:
            return self._unsupported_set(start)
        key, key_span = self._setting("=", "the name of a setting")
        p.expect("=", after="the name of a setting")
        value, value_span = self._setting("", "a value")
        return SetOption(key, value, self._since(start), key_span, value_span)

    def _unsupported_set(self, start: int) -> Unsupported:
        span = self._since(start)
        return Unsupported(
            "SET",
            Diagnostic("SQL009", "SET needs a setting", span, (), "write SET 'name' = 'value'"),
            span,
        )

    def _setting(self, until: str, what: str) -> tuple[str, Span]:
        p = self.p
        start = p.here
        if p._curr and p._curr.token_type == TokenType.STRING:
            text = p._curr.text
            p._advance()
            return text, self._since(start)
        while not p.at_end and not (until and p.at(until)):
            p._advance()
        if p.here == start or p.last_end <= start:
            p.fail_here(what)
        return self.rendered.text[start : p.last_end].strip(), self._since(start)

    def _insert(self, start: int) -> InsertInto:
        p = self.p
        overwrite = p.take("OVERWRITE")
        if not overwrite:
            p.expect("INTO", after="INSERT")
        p.take("TABLE")
        name_start = p.here
        table = p.table_name()
        table_span = self._since(name_start)
        hint = p.hint_node(p.last_end, p.hints_until)
        if p.at("PARTITION"):
            p.fail_at_token(
                p._curr,
                "a fixed partition can't be written",
                "select the partition columns in the query",
            )
        columns: tuple[str, ...] = ()
        if p.at("(") and not self._query_in_parentheses():
            columns = self._names("a column")
        query = self._query()
        return InsertInto(_dotted(table), columns, query, overwrite, hint, self._since(start), table_span)

    def _query_in_parentheses(self) -> bool:
        p = self.p
        following = p._tokens[p._index :]
        inside = next((t for t in following if t.token_type != TokenType.L_PAREN), None)
        return inside is not None and inside.text.upper() in ("SELECT", "WITH", "VALUES", "FROM")

    def _names(self, what: str) -> tuple[str, ...]:
        p = self.p
        p.expect("(")
        names = [p.identifier(what).name]
        while p.take(","):
            names.append(p.identifier(what).name)
        p.expect(")", after="the columns")
        return tuple(names)

    # ---- CREATE ------------------------------------------------------------

    def _create(self, start: int) -> Statement:
        p = self.p
        if p.at("OR", "REPLACE"):
            p.fail_at_token(p._curr, "nothing is there to replace", "write CREATE without OR REPLACE")
        temporary = p.take("TEMPORARY") or p.take("TEMP")
        if p.take("TABLE"):
            return self._create_table(start, temporary)
        if p.take("VIEW"):
            return self._create_view(start, temporary)
        for kind, hint in _UNSUPPORTED.items():
            words = kind.split()
            if words[0] == "CREATE" and (p.at(*words[1:]) or p.at("SYSTEM", *words[1:])):
                span = self._since(start)
                while not p.at_end:
                    p._advance()
                diagnostic = Diagnostic("SQL009", f"{kind} can't be run in a pipeline file", span, (), hint)
                return Unsupported(kind, diagnostic, self._since(start))
        return p.fail_here("TABLE or VIEW", after="CREATE")

    def _if_not_exists(self) -> bool:
        if self.p.take("IF"):
            self.p.expect("NOT", after="IF")
            self.p.expect("EXISTS", after="IF NOT")
            return True
        return False

    def _create_view(self, start: int, temporary: bool) -> CreateView:
        p = self.p
        if_not_exists = self._if_not_exists()
        name_start = p.here
        name = p.table_name("the name of the view")
        name_span = self._since(name_start)
        columns = self._names("a column") if p.at("(") else ()
        if p.take("COMMENT"):
            p.string("a comment")
        p.expect("AS", after="the name of the view")
        query = self._query()
        span = self._since(start)
        return CreateView(_dotted(name), columns, query, if_not_exists, temporary, span, name_span)

    def _create_table(self, start: int, temporary: bool) -> CreateTable:
        p = self.p
        if_not_exists = self._if_not_exists()
        name_start = p.here
        name = p.table_name("the name of the table")
        name_span = self._since(name_start)
        body = _TableBody()
        if p.take("("):
            while not (p.at(")") and not body.started):
                self._table_element(body)
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
            partitioned = self._names("a column to partition by")
            partition_span = self._since(at)
        options: tuple[Option, ...] = ()
        options_span = name_span
        at = p.here
        if p.take("WITH"):
            options = self._options()
            options_span = self._span(at, at + 4)
        like = self._like() if p.at("LIKE") else None
        as_select: exp.Query | None = None
        if p.take("AS"):
            as_select = self._query()
        return CreateTable(
            name=_dotted(name),
            columns=tuple(body.columns),
            watermark=body.watermark,
            primary_key=body.primary_key,
            partitioned_by=partitioned,
            options=options,
            like=like,
            as_select=as_select,
            if_not_exists=if_not_exists,
            temporary=temporary,
            span=self._since(start),
            name_span=name_span,
            options_span=options_span,
            partition_span=partition_span,
        )

    def _table_element(self, body: _TableBody) -> None:
        p = self.p
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
            columns = self._names("a column of the key")
            self._not_enforced()
            body.primary_key = PrimaryKey(columns, self._since(start))
            return
        name = p.identifier("a column, WATERMARK FOR or PRIMARY KEY")
        name_span = self._since(start)
        if p.take("AS"):
            expression = p.expression_here("an expression")
            body.columns.append(ComputedColumn(name.name, expression, name_span))
        else:
            body.columns.append(self._typed_column(body, name.name, name_span))
        if p.take("COMMENT"):
            p.string("a comment")

    def _typed_column(self, body: _TableBody, name: str, span: Span) -> Column:
        p = self.p
        start = p.here
        if p.at(",") or p.at(")") or p.at_end:
            p.fail_here(f"a type, or AS and an expression, for column `{name}`")
        data_type = p.data_type(f"a type for column `{name}`")
        type_ = self._type(data_type, start)
        precision = _precision(data_type) if type_.is_timestamp else None
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
        return PhysicalColumn(name, type_, nullable, precision, span)

    def _type(self, node: exp.DataType, start: int) -> SqlType:
        try:
            return sql_type_of(node)
        except TypeProblem as problem:
            at = range_of(problem.node) or (start, self.p.last_end)
            raise SqlSyntaxError(problem.message, *at, help=problem.help, code="SQL003") from None
        except ValueError as error:
            raise SqlSyntaxError(str(error), start, self.p.last_end, code="SQL003") from None

    def _not_enforced(self) -> None:
        p = self.p
        if p.take("NOT", "ENFORCED"):
            return
        p.fail_at_token(
            p._curr if p.at("ENFORCED") else p._prev,
            "a primary key is not checked on a stream",
            "write PRIMARY KEY (…) NOT ENFORCED",
        )

    def _twice(self, what: str) -> NoReturn:
        self.p.fail_at_token(self.p._curr, f"a table has one {what} only")

    def _watermark(self, start: int) -> Watermark:
        p = self.p
        column_start = p.here
        parts = [p.identifier("the time column").name]
        while p.take("."):
            parts.append(p.identifier("a field").name)
        column_span = self._since(column_start)
        p.expect("AS", after="WATERMARK FOR column")
        expression = p.expression_here("an expression, such as ts - INTERVAL '5' SECOND")
        return Watermark(tuple(parts), expression, self._since(start), column_span)

    def _options(self) -> tuple[Option, ...]:
        p = self.p
        p.expect("(", after="WITH")
        options: list[Option] = []
        while not p.at(")"):
            key_start = p.here
            key = p.string("an option's name")
            key_span = self._since(key_start)
            p.expect("=", after="an option's name")
            value_start = p.here
            token = p._curr
            if token and token.token_type in (TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
                raise SqlSyntaxError(
                    "an option's value must be a string in single quotes",
                    token.start,
                    token.end + 1,
                    help=f"write '{token.text}'",
                    code="SQL006",
                )
            value = p.string("an option's value")
            options.append(Option(key.name, value.name, key_span, self._since(value_start)))
            if not p.take(","):
                if p._curr and p._curr.token_type == TokenType.STRING:
                    p.fail_at_token(p._curr, "expected a comma or `)`", "write a comma between two options")
                break
            if p.at(")"):
                p.fail_at_token(p._prev, "nothing follows this comma", "remove the comma")
        p.expect(")", after="the options")
        return tuple(options)

    def _like(self) -> Like:
        p = self.p
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
        return Like(_dotted(source), tuple(rules), self._since(start))


class _TableBody:
    """What has been read of a table's parentheses."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.watermark: Watermark | None = None
        self.primary_key: PrimaryKey | None = None
        self.started = False


def _precision(node: exp.DataType) -> int | None:
    return int(node.expressions[0].name) if node.expressions else None


def _dotted(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)
