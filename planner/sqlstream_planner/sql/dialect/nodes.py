"""Syntax nodes that sqlglot has no class for."""

from __future__ import annotations

from sqlglot import exp

#: The `kind` of a type that is a row without names: DuckDB's TUPLE(INTEGER, VARCHAR).
TUPLE = "TUPLE"


class WindowTvf(exp.Expression):
    """A window table function in FROM: TUMBLE, HOP, CUMULATE or SESSION over `data`.

    `this` is an `exp.Var` with the function's name in upper case. `data` is an `exp.Table` or
    `exp.Subquery`; `timecol` the time column (`exp.Column`); the others are expressions as written, or
    missing: TUMBLE has `size`, HOP `slide` and `size`, CUMULATE `step` and `size`, SESSION `gap`; all but
    SESSION may have `offset`. `partition_by` (a list of columns) belongs to SESSION. It sits in
    `exp.Table.this`, so alias and joins are where they always are.
    """

    arg_types = {  # noqa: RUF012
        "this": True,
        "data": True,
        "timecol": True,
        "size": False,
        "slide": False,
        "step": False,
        "gap": False,
        "offset": False,
        "partition_by": False,
    }

    @property
    def kind(self) -> str:
        """The function's name in upper case."""
        return str(self.this.name).upper()
