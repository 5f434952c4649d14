"""Types and intervals: DuckDB's, and Flink's way to write them."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sqlstream_planner.diagnostics import did_you_mean
from sqlstream_planner.sql.dialect import intervals
from sqlstream_planner.sql.dialect.errors import SqlSyntaxError
from sqlstream_planner.sql.dialect.nodes import TUPLE
from sqlstream_planner.sql.dialect.positions import own_range
from sqlstream_planner.sql.dialect.token_parser import TokenParser

TYPE_NAMES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
    "STRING", "VARCHAR", "CHAR", "BYTES", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL", "UUID",
    "JSON", "ARRAY", "MAP", "ROW",
)  # fmt: skip
#: DuckDB's names of types that sqlglot has none for.
_OTHER_TYPES = {
    "UINT8": exp.DType.UTINYINT,
    "UINT16": exp.DType.USMALLINT,
    "UINT32": exp.DType.UINT,
    "UINT64": exp.DType.UBIGINT,
    "GUID": exp.DType.UUID,
    "OID": exp.DType.BIGINT,
    "INTEGRAL": exp.DType.INT,
    "VARINT": exp.DType.BIGNUM,
}


class TypeParser(TokenParser):
    """Parses types and intervals."""

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        start = self.here
        first = self._index
        if self._curr.token_type in self.TYPE_TOKENS and self._next.token_type == TokenType.ARRAY:
            return self._parse_array_of(self._curr)
        self._type_depth += 1
        try:
            found = super()._parse_types(check_func, schema, allow_identifiers, with_collation)
        finally:
            self._type_depth -= 1
        if isinstance(found, exp.DataType) and self._type_depth and not self.take("NOT", "NULL"):
            self.take("NULL")
        for before, token in pairwise(self._tokens[first : self._index]):
            if token.token_type == TokenType.ARRAY and before.token_type in (TokenType.R_PAREN, TokenType.GT):
                self.fail_at_token(token, None, "write ARRAY<type>")
        if isinstance(found, exp.DataType):
            for child in found.expressions:
                # `ROW<a INT NOT NULL>`: DuckDB has no constraint inside a type.
                if isinstance(child, exp.ColumnDef):
                    child.set("constraints", None)
        return self._ranged(start, found)

    def _parse_array_of(self, token: Token) -> exp.DataType:
        # After `INT ARRAY` sqlglot goes on reading what follows as a list of sizes.
        single = type(self)(dialect=self.dialect)
        single.start([token], self.sql)
        element = single.data_type()
        self._advance(2)
        array = exp.DataType(this=exp.DType.ARRAY, expressions=[element], nested=True)
        return self._ranged(token.start, array)

    def _parse_struct_types(self, type_required: bool = False) -> exp.Expr | None:
        found = super()._parse_struct_types(type_required)
        self._match(TokenType.STRING)  # ROW<a INT 'a comment'>
        return found

    def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
        if identifier.name.upper() == TUPLE and not identifier.quoted and self.take("("):
            inside = self._parse_csv(lambda: self.data_type("a type, without a name"))
            self.expect(")", after="the types of TUPLE")
            return exp.DataType(this=exp.DType.USERDEFINED, kind=TUPLE, expressions=inside, nested=True)
        named = self._types.get(identifier.name.lower())
        if named is not None:
            return named.copy()
        name = "" if identifier.quoted else identifier.name.upper()
        if name in _OTHER_TYPES:
            return exp.DataType(this=_OTHER_TYPES[name])
        if name == "TIMESTAMPTZ_NS":
            raise SqlSyntaxError(
                "TIMESTAMPTZ_NS: instants are kept in microseconds",
                *(own_range(identifier) or (self._prev.start, self._prev.end + 1)),
                help="write TIMESTAMPTZ, or TIMESTAMP_NS, which has nanoseconds and no zone",
                code="TYP009",
            )
        near = did_you_mean(identifier.name, [*TYPE_NAMES, *self._types])
        start, end = own_range(identifier) or (self._prev.start, self._prev.end + 1)
        raise SqlSyntaxError(
            f"unknown type `{identifier.name}`",
            start,
            end,
            help=f"did you mean {near}?" if near else "types are " + ", ".join(TYPE_NAMES),
            code="SQL003",
        )

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Add | exp.Interval | None:
        start = self.here
        literal = self._curr.token_type == TokenType.INTERVAL and self._next.token_type == TokenType.STRING
        if literal:
            self._advance()
            found: exp.Add | exp.Interval | None = self._parse_interval_literal()
        elif self._curr.token_type == TokenType.INTERVAL:
            found = self._parse_interval_of_value(parse_function_unit)
        else:
            found = super()._parse_interval(require_interval, parse_function_unit)
        if isinstance(found, exp.Interval):
            try:
                found = intervals.normalized(found)
            except ValueError as error:
                raise SqlSyntaxError(str(error), start, self.last_end, code="SQL005") from None
        return self._ranged(start, found)

    def _parse_interval_of_value(self, parse_function_unit: bool) -> exp.Interval | None:
        # sqlglot takes a text behind `INTERVAL 2 HOUR +` for more of the interval.
        index = self._index
        self._advance()
        value = self._parse_term()
        name = isinstance(value, exp.Column) and not value.table and not value.this.quoted
        if value is None or (name and self._curr and intervals.unit_name(self._curr.text) is None):
            self._retreat(index)
            return None
        return self._parse_interval_span(value, parse_function_unit)

    def _parse_interval_literal(self) -> exp.Interval:
        # sqlglot reads '1 day 02:03' as '1 day'.
        text = self._curr.text
        self._advance()
        value = exp.Literal.string(text)
        if any(c.isalpha() for c in text) or self._curr.token_type == TokenType.STRING:
            return exp.Interval(this=value)
        unit = self._parse_interval_unit()
        if unit is not None and self.take("TO"):
            return exp.Interval(
                this=value, unit=exp.IntervalSpan(this=unit, expression=self._parse_interval_unit())
            )
        return exp.Interval(this=value, unit=unit)

    def _parse_interval_unit(self) -> exp.Var | None:
        token = self._curr
        if token.token_type != TokenType.VAR and intervals.unit_name(token.text) is None:
            return None
        self._advance()
        if self._match(TokenType.L_PAREN):  # SECOND(3): the precision changes nothing
            self._match(TokenType.NUMBER)
            self.expect(")", after="the precision")
        return self.expression(exp.Var(this=token.text.upper()), token)
