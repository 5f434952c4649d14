"""What is declared in a session of the shell: by the file, and by statements before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from sqlstream.connectors.catalogs import CATALOG_TYPES
from sqlstream.connectors.registry import REGISTERED
from sqlstream.shell.opening import Opened
from sqlstream.shell.pieces import Piece, composed, generated
from sqlstream.shell.samples import Bounds
from sqlstream.shell.selecting import Readable
from sqlstream.shell.tables import STATE, readable, with_columns
from sqlstream.state.committed import Committed, find_committed
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.catalog.foreign.descriptor import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalogs
from sqlstream_planner.catalog.foreign.queries import named_tables
from sqlstream_planner.catalog.foreign.resolve import ForeignTables, resolve
from sqlstream_planner.catalog.script import declared
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, suggestion
from sqlstream_planner.sql.parse import Script, parse_rendered
from sqlstream_planner.sql.qualified import name_of, parts_of
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
        return self.catalog_of(self.parsed(self.pieces))[0]

    @property
    def readable(self) -> Catalog:
        """The same with what can be selected from besides: sinks, and the relations of the state."""
        tables = self.readable_over(self.catalog, look=True)
        return readable(tables.catalog, tables.relations)

    def state_tables(self) -> tuple[str, ...]:
        """What the relations of the state are called in a SELECT."""
        return tuple(f"{STATE}{r}" for r in self.readable_over(self.catalog, look=True).relations)

    def columns(self, name: str) -> tuple[Column, ...]:
        """The columns that a table or view has in a SELECT; a name of one part is of the file's own.

        Raises DiagnosticError.
        """
        parts = parts_of(name)
        if len(parts) == 1:
            parts = (DEFAULT_CATALOG, DEFAULT_DATABASE, *parts)
        return self.schema(selecting(parts))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The statements that declare, those of the file first."""
        return (*self.opened.declared, *self.typed)

    def parsed(self, pieces: Sequence[Piece]) -> Script:
        """Statements as one script, with their source locations."""
        return parse_rendered(composed(pieces))

    def catalog_of(self, script: Script) -> tuple[Catalog, tuple[Diagnostic, ...]]:
        """What statements declare without mistakes, and their mistakes."""
        return self._declared(*self.resolved(script))

    def resolved(self, script: Script) -> tuple[Script, ForeignTables]:
        """The script with full names for the tables of catalogs, and what these tables are."""
        return resolve(script, self.catalogs, frozenset({STATE.rstrip(".")}))

    @cached_property
    def catalogs(self) -> Catalogs:
        """What is asked for the tables of catalogs."""
        return CATALOG_TYPES.catalogs(str(self.opened.base_dir))

    @property
    def foreign(self) -> ForeignTables:
        """The catalogs that are declared, which one is in use, and their tables that are named."""
        return self.resolved(self.parsed(self.pieces))[1]

    def _declared(self, script: Script, foreign: ForeignTables) -> tuple[Catalog, tuple[Diagnostic, ...]]:
        kept = tuple(
            s for s in script.statements if isinstance(s, CreateTable | CreateView | CreateType | SetOption)
        )
        found = declared(replace(script, statements=kept), REGISTERED.descriptors, foreign)
        return with_columns(found.catalog, self.opened.sinks), found.errors

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
        script, foreign = self.resolved(script)
        if foreign.last:
            raise DiagnosticError(*foreign.last)
        if any(name.lower() in foreign.broken for name in named(script.statements[-1])):
            raise DiagnosticError(
                *foreign.errors
            )  # of a catalog that a statement before was the first to ask
        catalog, _ = self._declared(replace(script, statements=script.statements[:-1]), foreign)
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

    def table_name(self, parts: Sequence[str]) -> tuple[Catalog, str]:
        """What is declared, with a table of this name, and what it is called there. Raises DiagnosticError."""
        script, catalog = self.query(selecting(parts))
        (name,) = named(script.statements[0])
        return catalog, name

    def schema(self, piece: Piece) -> tuple[Column, ...]:
        """The columns of a query. Raises DiagnosticError."""
        script, catalog = self.query(piece)
        (root,) = self.readable_over(catalog, look=self.reads_state(piece)).bound(script).roots
        return tuple(root.sink.schema)


def selecting(parts: Sequence[str]) -> Piece:
    """A SELECT of all of a table, by the parts of its name."""
    return generated(f"SELECT * FROM {'.'.join(map(quote_identifier, parts))}")


def named(statement: Statement) -> tuple[str, ...]:
    """The tables that a query reads."""
    query = getattr(statement, "query", None)
    return () if query is None else tuple(map(name_of, named_tables(query).values()))
