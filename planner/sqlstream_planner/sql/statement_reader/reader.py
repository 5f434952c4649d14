"""One statement: the tokens up to a semicolon -> the statement that they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sqlstream_planner.diagnostics import Diagnostic, Span, did_you_mean
from sqlstream_planner.sql.chunks import Chunk
from sqlstream_planner.sql.dialect import SqlSyntaxError
from sqlstream_planner.sql.dialect.lexer import HintBook
from sqlstream_planner.sql.qualified import name_of
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.sql.statement_reader.catalogs import read_create_catalog, read_use
from sqlstream_planner.sql.statement_reader.create_table import TableReader
from sqlstream_planner.sql.statement_reader.cursor import Cursor
from sqlstream_planner.sql.statements import (
    CreateType,
    CreateView,
    DropIfExists,
    InsertInto,
    Select,
    SetOption,
    Statement,
    StatementSet,
    Unsupported,
)

_UNSUPPORTED: dict[str, str | None] = {
    "CREATE FUNCTION": "write the expression in the query, or as a Jinja macro",
    "CREATE DATABASE": "make it in the store; the file's own tables need none",
    "CREATE MODEL": None,
    "CREATE MATERIALIZED TABLE": "write CREATE TABLE and INSERT INTO",
    "DROP": "remove the CREATE statement from the file instead",
    "ALTER": "change the CREATE statement in the file instead",
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
#: What stands between DROP and IF EXISTS where files for Flink's SQL client begin with it.
_MAY_EXIST = (("TABLE",), ("VIEW",), ("TEMPORARY", "TABLE"), ("TEMPORARY", "VIEW"))
_CONFLICTS = ("NOTHING", "ERROR", "DEDUPLICATE")
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT", "(")
_STARTS = (
    "SELECT",
    "INSERT INTO",
    "CREATE TABLE",
    "CREATE VIEW",
    "CREATE TYPE",
    "CREATE CATALOG",
    "USE",
    "SET",
    "WITH",
    "EXECUTE STATEMENT SET",
)


def _conflict(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens of ON CONFLICT DO … at the end of a statement (to sqlglot an ON belongs to a join), and the others."""
    words = [token.text.upper() for token in tokens[-4:]]
    if words[:3] == ["ON", "CONFLICT", "DO"] and words[-1] in _CONFLICTS:
        return tokens[-4:], tokens[:-4]
    return (), tokens


#: What Spark writes behind numbers for their types.
_SPARKS_NUMBERS = {
    "L": "BIGINT",
    "S": "SMALLINT",
    "Y": "TINYINT",
    "D": "DOUBLE",
    "F": "FLOAT",
    "BD": "DECIMAL",
}


class StatementReader:
    """Reads the tokens of one statement; `types` has those that CREATE TYPE gave names to, and gets those of this one."""

    def __init__(self, rendered: RenderedSql, hints: HintBook, types: dict[str, exp.DataType]) -> None:
        self._cursor = Cursor(rendered)
        self._hints = hints
        self._types = types

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
                help="write END; after its last INSERT",
                code="SQL002",
            )
        if not inserts:
            raise SqlSyntaxError("this statement set is empty", chunk.start, chunk.tokens[-1].end + 1)
        return StatementSet(tuple(inserts), self._cursor.span(chunk.start, chunk.end))

    def _single(self, chunk: Chunk) -> Statement:
        p, tokens = self._cursor.parser, chunk.tokens
        for token, following in pairwise(tokens):
            touching = token.end + 1 == following.start
            if touching and token.token_type == TokenType.NUMBER and following.token_type == TokenType.VAR:
                written, type_ = f"{token.text}{following.text}", _SPARKS_NUMBERS.get(following.text.upper())
                raise SqlSyntaxError(
                    f"`{written}` is neither a number nor a name",
                    token.start,
                    following.end + 1,
                    help=f"write `{written}` in backticks if it is a name"
                    + (f"; for Spark's number write CAST({token.text} AS {type_})" if type_ else ""),
                )
        conflict, tokens = _conflict(tokens)
        p.start(tokens, self._cursor.rendered.text, self._hints, chunk.stop, self._types)
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
                conflict_span=self._cursor.span(conflict[0].start, conflict[-1].end + 1),
            )
        if not p.at_end:
            p.fail_at_token(p._curr, None)
        left = self._hints.take(chunk.start, chunk.stop)
        if left:
            raise SqlSyntaxError(
                "a hint has no meaning here",
                left[0].start - 3,
                left[0].end + 2,
                help="hints follow SELECT or a table's name",
                code="SQL008",
            )
        return statement

    def _statement(self) -> Statement:
        p = self._cursor.parser
        start = p.here
        if p.take("SET"):
            return self._set(start)
        if p.at("INSERT") or p.at("EXECUTE", "INSERT"):
            p.take("EXECUTE")
            p.take("INSERT")
            return self._insert(start)
        if p.take("CREATE"):
            return self._create(start)
        if p.take("USE"):
            return read_use(self._cursor, start)
        if any(p.at(word) for word in _QUERIES):
            query = self._cursor.query()
            return Select(query, self._cursor.since(start))
        if any(p.at("DROP", *words, "IF", "EXISTS") for words in _MAY_EXIST):
            return self._drop_if_exists(start)
        for kind, hint in _UNSUPPORTED.items():
            words = kind.split()
            if p.at(*words):
                end = p._tokens[p._index + len(words) - 1].end + 1 if p._index >= 0 else start + 1
                return self._unsupported(kind, hint, self._cursor.span(start, end), start)
        token = p._curr
        near = did_you_mean(token.text, [s.split()[0] for s in _STARTS])
        raise SqlSyntaxError(
            f"no statement starts with `{self._cursor.rendered.text[token.start : token.end + 1]}`",
            token.start,
            token.end + 1,
            help=f"did you mean {near}?" if near else "a statement starts with " + ", ".join(_STARTS),
        )

    def _drop_if_exists(self, start: int) -> DropIfExists:
        p = self._cursor.parser
        p.take("DROP")
        at = self._cursor.since(start)
        while not p.take("EXISTS"):
            p._advance()
        name = name_of(p.table_name())
        diagnostic = Diagnostic(
            "SQL009",
            f"`{name}` is declared above, and DROP can't be run in a pipeline file",
            at,
            (),
            _UNSUPPORTED["DROP"],
        )
        return DropIfExists(name, diagnostic, self._cursor.since(start))

    def _unsupported(self, kind: str, hint: str | None, at: Span, start: int) -> Unsupported:
        """The statement that began at `start`, unread; `at` is shown."""
        p = self._cursor.parser
        while not p.at_end:
            p._advance()
        diagnostic = Diagnostic("SQL009", f"{kind} can't be run in a pipeline file", at, (), hint)
        return Unsupported(kind, diagnostic, self._cursor.since(start))

    def _set(self, start: int) -> Statement:
        p = self._cursor.parser
        if p.at_end:
            return self._unsupported_set(start)
        key, key_span = self._setting("=", "the name of a setting")
        p.expect("=", after="the name of a setting")
        value, value_span = self._setting("", "a value")
        return SetOption(key, value, self._cursor.since(start), key_span, value_span)

    def _unsupported_set(self, start: int) -> Unsupported:
        span = self._cursor.since(start)
        return Unsupported(
            "SET",
            Diagnostic("SQL009", "SET needs a setting", span, (), "write SET 'name' = 'value'"),
            span,
        )

    def _setting(self, until: str, what: str) -> tuple[str, Span]:
        p = self._cursor.parser
        start = p.here
        if p._curr and p._curr.token_type == TokenType.STRING:
            text = p._curr.text
            p._advance()
            return text, self._cursor.since(start)
        while not p.at_end and not (until and p.at(until)):
            p._advance()
        if p.here == start or p.last_end <= start:
            p.fail_here(what)
        return self._cursor.rendered.text[start : p.last_end].strip(), self._cursor.since(start)

    def _insert(self, start: int) -> InsertInto:
        p = self._cursor.parser
        overwrite = p.take("OVERWRITE")
        if not overwrite:
            p.expect("INTO", after="INSERT")
        p.take("TABLE")
        name_start = p.here
        table = p.table_name()
        table_span = self._cursor.since(name_start)
        hint = p.hint_node(p.last_end, p.hints_until)
        if p.at("PARTITION"):
            p.fail_at_token(
                p._curr,
                "a fixed partition can't be written",
                "select the partition columns in the query",
            )
        columns: tuple[str, ...] = ()
        if p.at("(") and not self._query_in_parentheses():
            columns = self._cursor.names("a column")
        query = self._cursor.query()
        return InsertInto(
            name_of(table), columns, query, overwrite, hint, self._cursor.since(start), table_span
        )

    def _query_in_parentheses(self) -> bool:
        p = self._cursor.parser
        following = p._tokens[p._index :]
        inside = next((t for t in following if t.token_type != TokenType.L_PAREN), None)
        return inside is not None and inside.text.upper() in ("SELECT", "WITH", "VALUES", "FROM")

    def _create(self, start: int) -> Statement:
        p = self._cursor.parser
        if p.at("OR", "REPLACE"):
            p.fail_at_token(p._curr, "nothing is there to replace", "write CREATE without OR REPLACE")
        temporary = p.take("TEMPORARY") or p.take("TEMP")
        if p.take("TABLE"):
            return TableReader(self._cursor).read(start, temporary=temporary)
        if p.take("VIEW"):
            return self._create_view(start, temporary)
        if p.take("TYPE"):
            return self._create_type(start)
        if p.take("CATALOG"):
            return read_create_catalog(self._cursor, start)
        for kind, hint in _UNSUPPORTED.items():
            words = kind.split()
            if words[0] == "CREATE" and (p.at(*words[1:]) or p.at("SYSTEM", *words[1:])):
                return self._unsupported(kind, hint, self._cursor.since(start), start)
        return p.fail_here("TABLE, VIEW, TYPE or CATALOG", after="CREATE")

    def _create_type(self, start: int) -> CreateType:
        p = self._cursor.parser
        if_not_exists = self._cursor.if_not_exists()
        name_start = p.here
        name = p.identifier("the name of the type").name
        name_end = p.last_end
        p.expect("AS", after="the name of the type")
        type_start = p.here
        type_ = p.data_type("a type, such as ENUM ('a', 'b')")
        self._cursor.type_of(type_, type_start)
        for node in type_.walk():
            node._meta = None  # where it is used is another place
        if name.lower() in self._types and not if_not_exists:
            raise SqlSyntaxError(
                f"the type `{name}` is declared twice", name_start, name_end, help="leave one of the two out"
            )
        self._types.setdefault(name.lower(), type_)
        return CreateType(name, self._cursor.since(start))

    def _create_view(self, start: int, temporary: bool) -> CreateView:
        p = self._cursor.parser
        if_not_exists = self._cursor.if_not_exists()
        name_start = p.here
        name = p.table_name("the name of the view")
        name_span = self._cursor.since(name_start)
        columns = self._cursor.names("a column") if p.at("(") else ()
        if p.take("COMMENT"):
            p.string("a comment")
        p.expect("AS", after="the name of the view")
        query = self._cursor.query()
        span = self._cursor.since(start)
        return CreateView(name_of(name), columns, query, if_not_exists, temporary, span, name_span)
