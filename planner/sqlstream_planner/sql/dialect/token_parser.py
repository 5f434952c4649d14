"""What every reader of tokens needs: words, names, types and queries read one by one, each with its range, and errors.

The grammar itself is `SqlStreamParser`'s, which is built on this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from sqlstream_planner.sql.dialect import depth
from sqlstream_planner.sql.dialect.errors import (
    SqlSyntaxError,
    expectation,
    nested_too_deeply,
    refuse_bare_arrow,
)
from sqlstream_planner.sql.dialect.lexer import HintBook, HintText
from sqlstream_planner.sql.dialect.positions import own_range, range_of, set_range

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expr)

_ENDS_A_LIST = frozenset(
    {TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.FROM}
)


class TokenParser(DuckDBParser):
    """sqlglot's DuckDB parser with a range on every node, errors with a place, and tokens read one by one."""

    def __init__(self, dialect: Any = None, **options: Any) -> None:
        options["error_level"] = ErrorLevel.IMMEDIATE
        super().__init__(dialect=dialect, **options)
        self._hints = HintBook(())
        self._stop = 0
        self._type_depth = 0
        self._takes_lambda = False
        self._types: Mapping[str, exp.DataType] = {}

    # ---- entry, for whoever reads statements -------------------------------------------------------------

    def start(
        self,
        tokens: Sequence[Token],
        sql: str,
        hints: HintBook | None = None,
        stop: int | None = None,
        types: Mapping[str, exp.DataType] = MappingProxyType({}),
    ) -> None:
        """Begin to read one statement's tokens (no semicolon); `sql` is the text their offsets point into.

        `stop` is where the statement ends: its semicolon, or the end of the text. `types` are those that CREATE TYPE gave
        names to, by these in lower case.
        """
        self.reset()
        self.sql = sql
        self._hints = hints if hints is not None else HintBook(())
        self._stop = len(sql) if stop is None else stop
        self._type_depth = 0
        self._takes_lambda = False
        self._types = types
        self._chunks = [list(tokens)]
        self._advance_chunk()

    @property
    def here(self) -> int:
        """The offset where the next token starts, or where the last one ended at the end of the statement."""
        if self._curr:
            return self._curr.start
        return self._prev.end + 1 if self._prev else 0

    @property
    def hints_until(self) -> int:
        """The offset before which a hint that follows the last token must start."""
        return self._curr.start if self._curr else self._stop

    @property
    def last_end(self) -> int:
        """The offset behind the last token that was read."""
        return self._prev.end + 1 if self._prev else self.here

    @property
    def at_end(self) -> bool:
        """Whether the statement is read to its end."""
        return not self._curr

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words."""
        return self._match_text_seq(*words, advance=False)

    def take(self, *words: str) -> bool:
        """Read these words (upper case, or a mark such as `(`) if they are next."""
        return self._match_text_seq(*words)

    def expect(self, *words: str, after: str | None = None) -> None:
        """Read these words or fail saying that they were expected."""
        if not self.take(*words):
            self.fail_here(f"`{' '.join(words)}`", after=after)

    def identifier(self, what: str) -> exp.Identifier:
        """Read one name; `what` says in the error which."""
        start = self.here
        token = self._curr
        if not token or token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN):
            self.fail_here(what)
        found = self._parse_id_var(any_token=False) or (
            self._parse_id_var(any_token=True) if token.text[:1].isalpha() else None
        )
        if not isinstance(found, exp.Identifier):
            self.fail_here(what)
        set_range(found, start, self.last_end)
        return found

    def table_name(self, what: str = "a table name") -> exp.Table:
        """Read a table name of one to three parts."""
        start = self.here
        parts = [self.identifier(what)]
        while self.take("."):
            parts.append(self.identifier(what))
        table = exp.Table(
            this=parts[-1],
            db=parts[-2] if len(parts) > 1 else None,
            catalog=parts[-3] if len(parts) > 2 else None,
        )
        set_range(table, start, self.last_end)
        return table

    def string(self, what: str) -> exp.Literal:
        """Read one string in single quotes; `what` says in the error which."""
        token = self._curr
        if token and token.token_type == TokenType.STRING:
            self._advance()
            literal = exp.Literal.string(token.text)
            set_range(literal, token.start, token.end + 1)
            return literal
        if token and token.token_type == TokenType.IDENTIFIER and self.sql[token.start] == '"':
            raise SqlSyntaxError(
                f"{what} must be a string in single quotes",
                token.start,
                token.end + 1,
                help=f"write '{token.text}': double quotes are for names",
                code="SQL006",
            )
        return self.fail_here(f"{what} in single quotes")

    def expression_here(self, what: str) -> exp.Expr:
        """Read one scalar expression; `what` says in the error which."""
        found = self._guarded(self._parse_disjunction)
        if found is None:
            self.fail_here(what)
        return found

    def data_type(self, what: str = "a type") -> exp.DataType:
        """Read one type, without NOT NULL."""
        start = self.here
        index = self._index
        found = self._guarded(lambda: self._parse_types(schema=True))
        if not isinstance(found, exp.DataType):
            self._retreat(index)
            self.fail_here(what)
        set_range(found, start, self.last_end)
        return found

    def query(self) -> exp.Expr:
        """Read a query: SELECT, VALUES, PIVOT, set operations, with CTEs, in parentheses or not."""
        start = self.here
        if self._match_set((TokenType.PIVOT, TokenType.UNPIVOT), advance=False):
            pivot = exp.Subquery(this=self._guarded(self._parse_wrapped_select))
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=pivot))
            set_range(query, start, self.last_end)
            return query
        found = self._guarded(self._parse_ddl_select)
        if found is None:
            self.fail_here("a query")
        return found

    def _guarded(self, parse: Callable[[], T]) -> T:
        """Run a parser of sqlglot's: it trips over some broken texts instead of reporting them."""
        try:
            found = parse()
        except SqlSyntaxError:
            raise
        except RecursionError:
            raise nested_too_deeply(self._prev.start, self._prev.end + 1) from None
        except (
            ParseError,
            TokenError,
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            token = self._curr or self._prev
            raise SqlSyntaxError(
                f"can't read this near `{self.sql[token.start : token.end + 1]}`", token.start, token.end + 1
            ) from error
        if len(self._tokens) > depth.MAX_DEPTH and isinstance(found, exp.Expr):
            below = depth.below_depth(found)
            if below is not None:
                raise nested_too_deeply(*(range_of(below) or (self._prev.start, self._prev.end + 1)))
        return found

    def hints_between(self, start: int, end: int) -> list[HintText]:
        """Take the hints in `[start, end)` that nothing has taken."""
        return self._hints.take(start, end)

    def call(self, name: str, *arguments: exp.Expr | None) -> exp.Anonymous:
        """A call of function `name`."""
        return self.expression(exp.Anonymous(this=name, expressions=[a for a in arguments if a is not None]))

    # ---- errors ------------------------------------------------------------------------------------------

    def fail_here(self, expected: str, *, after: str | None = None) -> NoReturn:
        """Fail at the next token, which is not what was `expected`."""
        behind = f" after {after}" if after else ""
        self.fail_at_token(self._curr or None, f"expected {expected}{behind}")

    def fail_at_token(self, token: Token | None, expected: str | None, help: str | None = None) -> NoReturn:
        """Fail at `token`, or at the end of the statement if there is none."""
        if token:
            message = f"unexpected `{self.sql[token.start : token.end + 1]}`"
            start, end = token.start, token.end + 1
        else:
            message = "the statement ends too early"
            end = self._tokens[-1].end + 1 if self._tokens else 0
            start = max(end - 1, 0)
        if expected:
            message = f"{message}: {expected}"
        raise SqlSyntaxError(message, start, end, help=help, code="SQL001" if token else "SQL002")

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Turn what sqlglot complains about into our failure, with the place it happened at."""
        del token  # sqlglot sometimes blames the token before the one that is wrong
        self.fail_at_token(self._curr or None, expectation(message))

    # ---- what sqlglot calls ------------------------------------------------------------------------------

    def expression(self, instance: E, token: Token | None = None, comments: list[str] | None = None) -> E:
        """Finish a node: validate it and record the range that it was read from."""
        refuse_bare_arrow(instance)
        node = super().expression(instance, token, comments)
        if token is not None:
            set_range(node, token.start, token.end + 1)
        elif own_range(node) is None and self._prev:
            start = self._prev.start
            for child in node.iter_expressions():
                found = own_range(child)
                if found is not None and found[0] < start:
                    start = found[0]
            set_range(node, start, self._prev.end + 1)
        return node

    def _ranged(self, start: int, node: T) -> T:
        if isinstance(node, exp.Expr) and self._prev:
            set_range(node, start, self._prev.end + 1)
        return node

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        items: list[T] = []
        while True:
            item = parse_method()
            if item is not None:
                items.append(item)
            comma = self._curr
            if not self._match(sep):
                return items
            if not self._curr or self._curr.token_type in _ENDS_A_LIST:
                raise SqlSyntaxError(
                    "nothing follows this comma",
                    comma.start,
                    comma.end + 1,
                    help="remove the comma, or write what is missing after it",
                )
