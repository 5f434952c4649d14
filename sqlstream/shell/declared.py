"""What is declared in a session of the shell: by the file, and by statements before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from sqlstream.connectors.registry import REGISTERED
from sqlstream.shell.opening import Opened
from sqlstream.shell.pieces import Piece, composed, generated
from sqlstream.shell.samples import Bounds
from sqlstream.shell.selecting import Readable
from sqlstream.shell.tables import STATE, readable, with_columns
from sqlstream.state.committed import Committed, find_committed
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.catalog.script import declared
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, suggestion
from sqlstream_planner.sql.parse import Script, parse_rendered
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.sql.statements import CreateTable, CreateType, CreateView, Select, SetOption, Statement

_UNLIMITED = f"\nLIMIT {2**61}"


class Declared:
    """Tables, views and settings, and queries over them; `typed` are the statements that declare, of the session alone.

    `bounds` say how much of a source is read.
    """

    def __init__(self, opened: Opened, bounds: Bounds) -> None:
        self.opened = opened
        self.typed: list[Piece] = []
        self._bounds = bounds
        self._state_error: DiagnosticError | None = None

    @property
    def catalog(self) -> Catalog:
        """What is declared without mistakes."""
        return self.catalog_of(self.parsed(self.pieces).statements)[0]

    @property
    def readable(self) -> Catalog:
        """The same with what can be selected from besides: sinks, and the relations of the state."""
        tables = self.readable_over(self.catalog, look=True)
        return readable(tables.catalog, tables.relations)

    def state_tables(self) -> tuple[str, ...]:
        """What the relations of the state are called in a SELECT."""
        return tuple(f"{STATE}{r}" for r in self.readable_over(self.catalog, look=True).relations)

    def columns(self, name: str) -> tuple[Column, ...]:
        """The columns that a table or view has in a SELECT. Raises DiagnosticError."""
        quoted = (
            ".".join(map(quote_identifier, name.split(".")))
            if name.startswith(STATE)
            else quote_identifier(name)
        )
        return self.schema(generated(f"SELECT * FROM {quoted}"))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The statements that declare, those of the file first."""
        return (*self.opened.declared, *self.typed)

    def parsed(self, pieces: Sequence[Piece]) -> Script:
        """Statements as one script, with their source locations."""
        return parse_rendered(composed(pieces))

    def catalog_of(self, statements: Sequence[Statement]) -> tuple[Catalog, tuple[Diagnostic, ...]]:
        """What statements declare without mistakes, and their mistakes."""
        kept = tuple(
            s for s in statements if isinstance(s, CreateTable | CreateView | CreateType | SetOption)
        )
        found = declared(Script(kept, self._empty), REGISTERED.descriptors)
        return with_columns(found.catalog, self.opened.sinks), found.errors

    @cached_property
    def _empty(self) -> RenderedSql:
        return composed(())

    def settings(self) -> dict[str, str]:
        """What SET has set, by its name."""
        statements = self.parsed(self.pieces).statements
        return {s.key: s.value for s in statements if isinstance(s, SetOption)}

    def _committed(self) -> Committed | None:
        """The state as it is now; why there is none is kept for whoever selects from it."""
        self._state_error = None
        if self.opened.store is None:
            return None
        try:
            return find_committed(self.opened.store)
        except DiagnosticError as error:
            self._state_error = error
            return None

    def readable_over(self, catalog: Catalog, *, look: bool) -> Readable:
        """What a SELECT over a catalog reads; the state too, as it is now, if it is to be looked at."""
        committed = self._committed() if look else None
        return Readable(catalog, self.opened.base_dir, committed, self._bounds)

    def reads_state(self, piece: Piece) -> bool:
        """Whether a statement may read the state, by itself or through a view that was typed."""
        return any(word.upper == "STATE" for one in (*self.typed, piece) for word in one.words)

    def query(self, piece: Piece) -> tuple[Script, Catalog]:
        """A query as the only statement of a script, over what is declared."""
        script = self.parsed((*self.pieces, piece))
        last = script.statements[-1]
        if not isinstance(last, Select):
            diagnostic = getattr(last, "diagnostic", None)
            if diagnostic is not None:
                raise DiagnosticError(diagnostic)
            raise piece.refuse(
                "SHL001", f"{piece.words[0].upper} is no query", "write a SELECT; `help` lists statements"
            )
        if last.query.args.get("order") is not None and last.query.args.get("limit") is None:
            # Its input ends, so that it can be ordered; a run could not.
            script = parse_rendered(composed((*self.pieces, piece), _UNLIMITED))
        catalog, _ = self.catalog_of(script.statements[:-1])
        return Script(script.statements[-1:], script.rendered), catalog

    def about_state(self, error: DiagnosticError) -> DiagnosticError:
        """What is wrong with the state instead, where a table of it is not known."""
        for diagnostic in error.diagnostics:
            unknown = re.fullmatch(r"unknown table `(state\..*)`", diagnostic.message)
            if unknown is None:
                continue
            if self._state_error is not None:
                why = self._state_error.diagnostics[0]
                return DiagnosticError(
                    replace(why, span=diagnostic.span), exit_code=self._state_error.exit_code
                )
            if self.opened.store is None:
                return DiagnosticError(
                    Diagnostic(
                        "STA020",
                        "there is no state: the shell was opened without a pipeline",
                        diagnostic.span,
                        help="open it with `sqlstream sql FILE`, or with --state-dir",
                    )
                )
            names = [name for name in self.readable.names if name.startswith(STATE)]
            return DiagnosticError(
                Diagnostic(
                    "STA024",
                    f"unknown relation `{unknown[1]}`",
                    diagnostic.span,
                    (f"there is {', '.join(names) or 'none: no operator of this query keeps state'}",),
                    suggestion(unknown[1], names),
                )
            )
        return error

    def schema(self, piece: Piece) -> tuple[Column, ...]:
        """The columns of a query. Raises DiagnosticError."""
        script, catalog = self.query(piece)
        (root,) = self.readable_over(catalog, look=self.reads_state(piece)).bound(script).roots
        return tuple(root.sink.schema)
