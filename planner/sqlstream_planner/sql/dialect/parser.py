"""Tokens -> sqlglot expressions, for DuckDB's expressions and queries plus what only Flink has.

Function calls mean what their name says and nothing else: every `name(…)` becomes `exp.Anonymous` with the
name as written, because sqlglot's own classes rewrite calls between dialects (DuckDB's TO_TIMESTAMP is not
Flink's). Calls with a grammar of their own are rewritten to plain calls of DuckDB functions, or keep their
sqlglot class: CAST, TRY_CAST, EXTRACT, CASE, EXISTS, IN, LIKE, intervals, `MAP {…}`, CURRENT_TIMESTAMP and
its like, and FIRST_VALUE, LAST_VALUE, NTH_VALUE, LEAD and LAG (sqlglot only writes IGNORE NULLS for those).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from sqlstream_planner.sql.dialect import calls, depth, tvf
from sqlstream_planner.sql.dialect.errors import SqlSyntaxError
from sqlstream_planner.sql.dialect.lexer import lex
from sqlstream_planner.sql.dialect.positions import set_range
from sqlstream_planner.sql.dialect.type_parser import TypeParser

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expr)

WINDOW_TVFS = tvf.ARGUMENTS.keys()

#: Functions that take a function: an arrow among their arguments may be one.
_TAKE_LAMBDAS = frozenset(
    {
        *("list_transform", "list_apply", "array_transform", "array_apply", "apply", "transform"),
        *("list_filter", "array_filter", "filter", "list_reduce", "array_reduce", "reduce", "invoke"),
    }
)
_BEHIND_MAP = (TokenType.L_PAREN, TokenType.L_BRACE, TokenType.L_BRACKET)
_ONLY_NAMED: dict[TokenType, Callable[..., Any]] = {
    t: f for t, f in DuckDBParser.LAMBDAS.items() if t != TokenType.ARROW
}
"""What else stands behind the name of an argument."""


class SqlStreamParser(TypeParser):
    """DuckDB's grammar with Flink's syntax."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        "FIRST_VALUE": exp.FirstValue.from_arg_list,
        "LAST_VALUE": exp.LastValue.from_arg_list,
        "NTH_VALUE": exp.NthValue.from_arg_list,
        "LEAD": exp.Lead.from_arg_list,
        "LAG": exp.Lag.from_arg_list,
    }
    ID_VAR_TOKENS: ClassVar[set[TokenType]] = DuckDBParser.ID_VAR_TOKENS | {TokenType.MATCH_CONDITION}
    FUNC_TOKENS: ClassVar[set[TokenType]] = DuckDBParser.FUNC_TOKENS | {TokenType.SESSION}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(False, safe=True),
        "EXTRACT": lambda self: self._parse_extract(),
        "STRUCT_PACK": lambda self: calls.struct_pack(self),
        "SUBSTRING": lambda self: calls.substring(self),
        "TRIM": lambda self: calls.trim(self),
        "POSITION": lambda self: calls.position(self),
        "OVERLAY": lambda self: calls.overlay(self),
        "CEIL": lambda self: calls.round_to_unit(self, "CEIL"),
        "CEILING": lambda self: calls.round_to_unit(self, "CEILING"),
        "FLOOR": lambda self: calls.round_to_unit(self, "FLOOR"),
        "TIMESTAMPADD": lambda self: calls.unit_first(self, "TIMESTAMPADD"),
        "TIMESTAMPDIFF": lambda self: calls.unit_first(self, "TIMESTAMPDIFF"),
        "DATEADD": lambda self: calls.unit_first(self, "DATEADD"),
        "DATEDIFF": lambda self: calls.unit_first(self, "DATEDIFF"),
        "JSON_VALUE": lambda self: calls.json_value(self),
        "JSON_QUERY": lambda self: calls.json_path_call(self, "JSON_QUERY"),
        "JSON_EXISTS": lambda self: calls.json_path_call(self, "JSON_EXISTS"),
        "JSON_OBJECT": lambda self: calls.json_object(self),
        "JSON_ARRAYAGG": lambda self: calls.json_arrayagg(self),
        "JSON_OBJECTAGG": lambda self: calls.json_objectagg(self),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        **{name: DuckDBParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "@")},
        "MAP": lambda self: calls.map_(self),
    }
    JSON_OPERATORS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.ARROW: lambda self, this, path: calls.arrow(self, "json_extract", this, path),
        TokenType.DARROW: lambda self, this, path: calls.arrow(self, "json_extract_string", this, path),
    }
    SET_OP_MODIFIERS: ClassVar[set[str]] = DuckDBParser.SET_OP_MODIFIERS | {"emit"}
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **DuckDBParser.PRIMARY_PARSERS,
        TokenType.HEX_STRING: lambda self, token: self._parse_hex(token),
    }

    #: sqlglot takes the element of what is called LIST or ARRAY for a list that is written out: LIST(x)[1].
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}

    def parse_set_operation(
        self, this: exp.Expr | None, consume_pipe: bool = False, intersect_only: bool = False
    ) -> exp.SetOperation | None:
        """UNION and the like; STRICT CORRESPONDING is another option than BY NAME."""
        start = self._index
        made = super().parse_set_operation(this, consume_pipe, intersect_only)
        if made is not None and "STRICT" in [t.text.upper() for t in self._tokens[start + 1 : start + 4]]:
            made.set("kind", "STRICT")
        return made

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        """A join; OUTER APPLY is LEFT JOIN LATERAL … ON TRUE."""
        join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        beside = join.this if join is not None else None
        if join is not None and isinstance(beside, exp.Lateral) and beside.args.get("cross_apply") is False:
            join.set("side", "LEFT")
            join.set("on", exp.true())
        return join

    def _parse_primary(self) -> exp.Expr | None:
        start = self.here
        if self._match_pair(TokenType.DOT, TokenType.NUMBER):
            # sqlglot writes 0.5, which is another type (DECIMAL(2,1)) than .5.
            return self._ranged(start, exp.Literal.number(f".{self._prev.text}"))
        return self._ranged(start, super()._parse_primary())

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        start = self.here
        index = self._index
        if not fallback_to_identifier and self._at_type_word_of_a_value():
            # sqlglot reads what is inside as a type's arguments first, and in each of them, which doubles with each nesting.
            return self._ranged(start, self._parse_column())
        typed = self._curr.token_type in self.TYPE_TOKENS and self._curr.token_type != TokenType.INTERVAL
        if typed and not fallback_to_identifier:
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            token = self._curr
            if isinstance(data_type, exp.DataType) and token.token_type == TokenType.STRING:
                # sqlglot reads DATE '…'::VARCHAR as DATE ('…'::VARCHAR).
                self._advance()
                literal = self.expression(exp.Literal.string(token.text), token)
                cast = self._ranged(start, self.expression(exp.Cast(this=literal, to=data_type)))
                return self._ranged(start, self._parse_column_ops(cast))
            self._retreat(index)
        return self._ranged(start, super()._parse_type(parse_interval, fallback_to_identifier))

    def _at_type_word_of_a_value(self) -> bool:
        """At `ARRAY[…]`, `DATE(x)`, `map < 2` or `text[1]`: the word is a type's, what it begins is none."""
        if self._curr.token_type not in self.TYPE_TOKENS or self._curr.token_type == TokenType.INTERVAL:
            return False
        if self._next.token_type == TokenType.LT:
            return True
        if self._next.token_type == TokenType.L_PAREN:
            inside = self._tokens[self._index + 2 : self._index + 3]
            return not inside or inside[0].token_type != TokenType.NUMBER
        if self._curr.token_type == TokenType.ARRAY or self._next.token_type != TokenType.L_BRACKET:
            return self._next.token_type == TokenType.L_BRACKET
        inside = self._tokens[self._index + 2 : self._index + 3]
        return (
            self._curr.token_type != TokenType.MAP
            and inside[:1] != []
            and inside[0].token_type != TokenType.R_BRACKET
        )

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        bare = isinstance(this, exp.Identifier) or (isinstance(this, exp.Column) and not this.table)
        word = bare and self._prev.token_type == TokenType.ARRAY
        found = super()._parse_bracket(None if word else this)
        return found if found is None or this is not None else calls.without_comprehension(self, found)

    def _parse_bracket_key_value(self, is_map: bool = False) -> exp.Expr | None:
        if self._curr is not None and self._curr.token_type == TokenType.COLON:
            return self._parse_slice(None)  # x[:n], which sqlglot takes for a parameter
        return super()._parse_bracket_key_value(is_map)

    def _parse_conjunction(self) -> exp.Expr | None:
        found = super()._parse_conjunction()
        return found and depth.balanced(found)

    def _parse_disjunction(self) -> exp.Expr | None:
        found = super()._parse_disjunction()
        return found and depth.balanced(found)

    def _parse_unary(self) -> exp.Expr | None:
        start = self.here
        found = super()._parse_unary()
        # sqlglot reads `1 ! BETWEEN 0 AND 2` as NOT BETWEEN; `!~` and its like are operators of their own.
        while found is not None and self._curr.token_type == TokenType.NOT and self._curr.text == "!":
            if self._next is not None and self._next.text.startswith("~"):
                break
            if self._next is not None and self._next.start == self._curr.end + 1:
                self._fail_at_joined(self._curr, self._next)
            self._advance()
            found = self.call("factorial", found)
        return self._ranged(start, found)

    def _fail_at_joined(self, mark: Token, behind: Token) -> None:
        # To DuckDB `k !< 1` has an operator `!<`, and elsewhere that is "not less": it is no factorial.
        for written, meant in (("<=", ">"), (">=", "<"), ("<", ">="), (">", "<=")):
            if behind.text == written:
                place = (mark.start, behind.end + 1)
                help = f"write `{meant}`; a factorial has a blank behind it: x ! {written} y"
                raise SqlSyntaxError(f"there is no operator `!{written}`", *place, help=help)

    def _parse_column(self) -> exp.Expr | None:
        start = self.here
        return self._ranged(start, super()._parse_column())

    def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
        found = super()._parse_column_ops(this)
        return found if found is None or found is this else calls.chained(found)

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        # In a call that takes no function `m -> 'a'` is a member of a JSON value. sqlglot asks one table for all calls.
        around = self.LAMBDAS
        self.LAMBDAS = DuckDBParser.LAMBDAS if self._takes_lambda else _ONLY_NAMED  # type: ignore[misc]
        try:
            return super()._parse_lambda(alias)
        finally:
            self.LAMBDAS = around  # type: ignore[misc]

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        start = self.here
        if self._curr.token_type == TokenType.MAP and self._next.token_type == TokenType.L_BRACKET:
            return self._ranged(start, calls.map_literal(self))
        if self._curr.token_type == TokenType.MAP and self._next.token_type not in _BEHIND_MAP:
            return None
        around = self._takes_lambda
        self._takes_lambda = self._curr.text.lower() in _TAKE_LAMBDAS
        try:
            found = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        finally:
            self._takes_lambda = around
        if isinstance(found, exp.Anonymous) and found.name.upper() == "ARRAY" and len(found.expressions) == 1:
            query = found.expressions[0]
            if isinstance(query, exp.Query):
                found = calls.array_of_query(self, query)
        return self._ranged(start, found and calls.of_rows(found))

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
        # sqlglot reads no comparison in the parentheses: CUBE (k, price > 5).
        for token, kind in ((TokenType.CUBE, exp.Cube), (TokenType.ROLLUP, exp.Rollup)):
            if self._match(token):
                items = [] if with_prefix else self._parse_wrapped_csv(self._parse_disjunction)
                return self.expression(kind(expressions=items))
        return None

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        if isinstance(this, exp.Func) and self._prev.token_type == TokenType.R_PAREN:
            begin = (this._meta or {}).get("start")
            if begin is not None:
                set_range(this, begin, self._prev.end + 1)
        return super()._parse_window(this, alias)

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self.here
        found = super()._parse_select(*args, **kwargs)
        if found is not None and self.last_end > start:
            self._ranged(start, found)
        return found

    def _parse_query_modifiers(self, this: Any) -> Any:
        found = super()._parse_query_modifiers(this)
        if isinstance(found, exp.Query):
            self._parse_emit(found)
        return found

    def _parse_emit(self, query: exp.Query) -> None:
        """EMIT CHANGES or EMIT ON WINDOW CLOSE at the end of a query, as its argument `emit`."""
        if not self._at_emit():
            return
        start = self.here
        if query.args.get("emit") is not None:
            self.fail_at_token(self._curr, "a query has one EMIT")
        self.take("EMIT")
        if not self.take("CHANGES"):
            self.take("ON", "WINDOW", "CLOSE")
        words = "CHANGES" if self._prev.text.upper() == "CHANGES" else "ON WINDOW CLOSE"
        query.set("emit", self._ranged(start, exp.Var(this=words)))

    def _at_emit(self) -> bool:
        return self.at("EMIT", "CHANGES") or self.at("EMIT", "ON", "WINDOW", "CLOSE")

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        return None if self._at_emit() else super()._parse_table_alias(alias_tokens)

    def _parse_hint(self) -> exp.Hint | None:
        return self.hint_node(self._prev.end + 1, self.hints_until)

    def hint_node(self, start: int, end: int) -> exp.Hint | None:
        """The hints written in `[start, end)` as one `exp.Hint` of calls, or None."""
        calls_: list[exp.Expr] = []
        texts = self.hints_between(start, end)
        for hint in texts:
            sub = SqlStreamParser(dialect=self.dialect)
            padded = " " * hint.start + hint.text
            sub.start(lex(padded).tokens, padded)
            calls_.extend(sub._parse_csv(sub._parse_hint_call))
            if not sub.at_end:
                sub.fail_here("a comma or the end of the hint")
        if not calls_:
            return None
        node = exp.Hint(expressions=calls_)
        set_range(node, texts[0].start, texts[-1].end)
        return node

    def _parse_hint_call(self) -> exp.Expr:
        start = self.here
        name = self.identifier("the name of a hint")
        arguments: list[exp.Expr] = []
        if self.take("("):
            arguments = self._parse_csv(self._parse_disjunction)
            self.expect(")")
        return self._ranged(start, exp.Anonymous(this=name.name, expressions=arguments))

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        start = self.here
        found = None if schema else tvf.parse_table_function(self)
        if found is None:
            found = super()._parse_table(
                schema, joins, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
            )
        else:
            alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
            if alias:
                found.set("alias", alias)
            if joins:
                for join in self._parse_joins():
                    found.append("joins", join)
        if found is not None:
            self._ranged(start, found)
            hint = self.hint_node(start, self.hints_until)
            if hint is not None:
                found.set("hints", [hint])
        return found

    def _parse_hex(self, token: Token) -> exp.Expr:
        if self.sql[token.start : token.start + 2].lower() == "0x":
            raise SqlSyntaxError(
                f"`{self.sql[token.start : token.end + 1]}` is not a number",
                token.start,
                token.end + 1,
                help=f"write {int(token.text, 16)}, or x'{token.text}' for bytes",
            )
        return self.expression(exp.HexString(this=token.text), token)
