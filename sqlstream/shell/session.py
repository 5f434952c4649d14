"""A session of the shell: what is declared so far, and what a statement gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlstream.planning import plan_script
from sqlstream.shell import describing, showing
from sqlstream.shell.answers import Answer, listing
from sqlstream.shell.declared import Declared
from sqlstream.shell.help import HELP
from sqlstream.shell.opening import Opened
from sqlstream.shell.pieces import GENERATED, Piece
from sqlstream.shell.samples import Bounds
from sqlstream.shell.selecting import selected
from sqlstream.shell.showing import dotted_words, like_of
from sqlstream.shell.tables import STATE
from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.schema import Column
from sqlstream_planner.catalog.foreign.descriptor import DEFAULT_CATALOG
from sqlstream_planner.catalog.foreign.tables import written
from sqlstream_planner.catalog.masked_sql import masked_sql
from sqlstream_planner.catalog.tables import Catalog, TableDef
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, suggestion
from sqlstream_planner.sql.parse import Script
from sqlstream_planner.sql.qualified import dotted, parts_of
from sqlstream_planner.sql.statements import (
    ComputedColumn,
    CreateTable,
    CreateView,
    PhysicalColumn,
    Statement,
    UseCatalog,
    UseDatabase,
)

#: Statements that write; the shell only reads.
_WRITING = (
    "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "EXECUTE", "BEGIN", "ALTER", "UPSERT",
)  # fmt: skip
_SHOWN = (
    *("TABLES", "VIEWS", "CATALOGS", "DATABASES", "CURRENT DATABASE", "FUNCTIONS"),
    *("CREATE TABLE t", "CREATE VIEW v", "CREATE CATALOG c"),
)


class Session:
    """What was declared by the file and by statements before, over which statements are run.

    `bounds` say how much of a source is read. It changes nothing but itself: what is declared in it is gone with it.
    """

    def __init__(self, opened: Opened, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - it is frozen
        self._declared = Declared(opened, bounds)

    @property
    def opened(self) -> Opened:
        """What the session began with."""
        return self._declared.opened

    @property
    def catalog(self) -> Catalog:
        """What is declared without mistakes."""
        return self._declared.catalog

    @property
    def readable(self) -> Catalog:
        """The same with what can be selected from besides: sinks, and the relations of the state."""
        return self._declared.readable

    def columns(self, name: str) -> tuple[Column, ...]:
        """The columns that a table or view has in a SELECT. Raises DiagnosticError."""
        return self._declared.columns(name)

    def in_catalogs(self, word: str) -> Iterator[str]:
        """Names of catalogs and in them that begin as a word that is typed. Raises what a catalog raises."""
        return showing.proposed(self._declared, word)

    @contextmanager
    def run(self, piece: Piece, *, as_json: bool = False) -> Iterator[Answer]:
        """Run a statement; its rows are read while inside.

        With `as_json` the only column of its result is each row as a JSON object. Raises DiagnosticError for mistakes, and
        what connectors, DuckDB and readers of state raise.
        """
        first = piece.words[0].upper
        if first == "EXPLAIN":
            yield self._explain(piece)
        elif first in ("DESCRIBE", "DESC"):
            yield self._describe(piece, as_json=as_json)
        elif first == "SHOW":
            yield self._show(piece, as_json=as_json)
        elif first == "SET" and len(piece.words) == 1:
            yield listing(
                ("name", "value", "meaning"), describing.settings(self._declared.settings()), as_json=as_json
            )
        elif first == "DROP":
            yield self._drop(piece)
        elif first == "RESET":
            yield self._reset(piece)
        elif first == "HELP":
            yield Answer(text=HELP)
        elif first in _WRITING:
            raise self._read_only(piece)
        elif first in ("CREATE", "SET", "USE"):
            yield self._declare(piece)
        else:
            yield from self._select(piece, as_json=as_json)

    # ------------------------------------------------------------------------------------------ statements

    def _select(self, piece: Piece, *, as_json: bool) -> Iterator[Answer]:
        script, catalog = self._declared.query(piece)
        tables = self._declared.readable_over(catalog, look=self._declared.reads_state(piece))
        try:
            with selected(tables, script, as_json=as_json) as answer:
                yield answer
        except DiagnosticError as error:
            raise self._declared.about_state(error) from None
        except (StateError, FileNotFoundError):
            if tables.committed is None or tables.committed.is_there:
                raise
            raise DiagnosticError(
                Diagnostic(
                    "STA025",
                    f"{tables.committed.title} was collected while it was read",
                    help="run the statement again",
                )
            ) from None

    def _explain(self, piece: Piece) -> Answer:
        words = [word.upper for word in piece.words[1:3]]
        skipped = 3 if words == ["PLAN", "FOR"] else 1
        if len(piece.words) <= skipped:
            raise piece.refuse("SHL001", "EXPLAIN needs a query", "write EXPLAIN SELECT …")
        query = piece.part(skipped)
        if query.words[0].upper in _WRITING:
            raise query.refuse(
                "SHL001", "the shell explains queries only", "run `sqlstream explain` on the pipeline's file"
            )
        script = self._declared.parsed((*self._declared.pieces, query))
        statements = tuple(self._only_declared(script.statements))
        planned = plan_script(Script(statements, script.rendered), self._declared.opened.base_dir)
        return Answer(plan=planned, warnings=planned.warnings)

    def _only_declared(self, statements: Sequence[Statement]) -> Iterator[Statement]:
        """Statements of which no CREATE TABLE AS writes: it declares the table with the columns that its query gives."""
        for statement in statements:
            if not isinstance(statement, CreateTable) or statement.as_select is None:
                yield statement
                continue
            schema = self._declared.opened.sinks.get(statement.name.lower(), ())
            columns = tuple(
                PhysicalColumn(c.name, c.type, c.nullable, None, statement.name_span) for c in schema
            )
            if columns:
                yield replace(statement, as_select=None, columns=columns)

    def _declare(self, piece: Piece) -> Answer:
        script = self._declared.parsed((*self._declared.pieces, piece))
        last = script.statements[-1]
        if isinstance(last, CreateTable) and last.as_select is not None:
            raise piece.refuse(
                "SHL002",
                "the shell only reads: CREATE TABLE AS would write a table",
                f"write CREATE VIEW {last.name} AS SELECT …, or put it into a pipeline's file and `sqlstream run` it",
            )
        diagnostic = getattr(last, "diagnostic", None)
        if diagnostic is not None:
            raise DiagnosticError(diagnostic)
        _, before = self._declared.catalog_of(replace(script, statements=script.statements[:-1]))
        catalog, errors = self._declared.catalog_of(script)
        new = [error for error in errors if error not in before]
        if new:
            raise DiagnosticError(*new)
        self._declared.typed.append(piece)
        if isinstance(last, CreateView):
            try:
                self._declared.columns(last.name)
            except DiagnosticError as error:
                self._declared.typed.pop()
                raise self._declared.about_state(error) from None
        if isinstance(last, UseCatalog | UseDatabase):
            return Answer(text=f"using {dotted(self._declared.foreign.in_use)}")
        name = getattr(last, "name", "")
        return Answer(
            text=f"created {name}" if name else f"set {getattr(last, 'key', '')}",
            warnings=tuple(
                w for w in catalog.warnings if w.span is not None and w.span.file == piece.rendered.file
            ),
        )

    def _drop(self, piece: Piece) -> Answer:
        words = [word.upper for word in piece.words]
        at = 2 if words[1:2] == ["TEMPORARY"] else 1
        if words[at : at + 1] not in (["TABLE"], ["VIEW"], ["CATALOG"]):
            raise piece.refuse("SHL001", "DROP needs TABLE, VIEW or CATALOG", "write DROP VIEW v", word=at)
        what = words[at]
        at += 3 if words[at + 1 : at + 3] == ["IF", "EXISTS"] else 1
        optional = words[at - 1] == "EXISTS"
        if len(words) <= at:
            raise piece.refuse("SHL001", f"DROP {what} needs a name", f"write DROP {what} name", word=at)
        name = piece.words[at].text.lower()
        if what == "CATALOG" and self._declared.foreign.in_use[0].lower() == name:
            help_ = f"write USE CATALOG {DEFAULT_CATALOG} before it"
            raise piece.refuse("SHL002", f"the catalog `{piece.words[at].text}` is in use", help_, word=at)
        for one in self._declared.typed:
            if _declared_name(one) == name and one.words[0].upper == "CREATE" and what in _head(one):
                self._declared.typed.remove(one)
                return Answer(text=f"dropped {piece.words[at].text}")
        catalog = self._declared.catalog
        if any(known.lower() == name for known in (*catalog.names, *(c.name for c in catalog.catalogs))):
            raise piece.refuse(
                "SHL002",
                f"`{piece.words[at].text}` is declared by the file, which the shell does not change",
                "only what was created in the shell can be dropped",
                word=at,
            )
        if optional:
            return Answer(text=f"there is no {piece.words[at].text}")
        raise self._unknown(piece, at, piece.words[at].text)

    def _reset(self, piece: Piece) -> Answer:
        key = piece.words[1].text if len(piece.words) > 1 else None
        kept = [
            one
            for one in self._declared.typed
            if one.words[0].upper != "SET"
            or (key is not None and (len(one.words) < 2 or one.words[1].text != key))
        ]
        self._declared.typed[:] = kept
        return Answer(text="reset" if key is None else f"reset {key}")

    def _describe(self, piece: Piece, *, as_json: bool) -> Answer:
        at = 1
        if (
            piece.words[1:2]
            and piece.words[1].upper in ("TABLE", "VIEW", "EXTENDED")
            and len(piece.words) > 2
        ):
            at = 2
        if len(piece.words) <= at:
            raise piece.refuse("SHL001", "DESCRIBE needs a table", "write DESCRIBE t; SHOW TABLES lists them")
        if piece.words[at].upper in ("SELECT", "WITH", "FROM", "VALUES"):
            rows = describing.column_rows(self._declared.schema(piece.part(at)))
            return listing(describing.DESCRIBED, rows, as_json=as_json)
        found = self._find(piece, at)
        if isinstance(found, TableDef):
            computed = any(isinstance(column, ComputedColumn) for column in found.columns)
            types = {c.name: str(c.type) for c in self._declared.columns(found.name)} if computed else {}
            return listing(describing.DESCRIBED, describing.table_rows(found, types), as_json=as_json)
        return listing(
            describing.DESCRIBED, describing.column_rows(self._declared.columns(found.name)), as_json=as_json
        )

    def _find(self, piece: Piece, at: int) -> TableDef | CreateView:
        """A table or view by its name, which stands in a statement. Raises DiagnosticError (SHL004; SQL013 of catalogs)."""
        parts = dotted_words(piece, at)
        name = ".".join(parts)
        if name.lower().startswith(STATE):
            catalog = self._declared.readable
        else:
            try:
                catalog, name = self._declared.table_name(parts)
            except DiagnosticError as error:
                span = piece.rendered.span(piece.words[at].start, piece.words[at + 2 * len(parts) - 2].end)
                raise DiagnosticError(
                    *(replace(d, span=span) if _is_generated(d) else d for d in error.diagnostics),
                    exit_code=error.exit_code,
                ) from None
        found = catalog.table(name) or catalog.view(name)
        if found is None:
            unknown = self._unknown(piece, at, name)
            raise self._declared.about_state(unknown) if name.lower().startswith(STATE) else unknown
        return found

    def _unknown(self, piece: Piece, at: int, name: str) -> DiagnosticError:
        names = self._declared.readable.names
        if name.lower().startswith(STATE):
            word = piece.words[at]
            span = piece.rendered.span(word.start, word.start + len(name))
            return DiagnosticError(Diagnostic("SQL013", f"unknown table `{name}`", span))
        return piece.refuse(
            "SHL004",
            f"unknown table or view `{name}`",
            suggestion(name, names) or "SHOW TABLES lists all",
            word=at,
        )

    def _show(self, piece: Piece, *, as_json: bool) -> Answer:
        words = [word.upper for word in piece.words]
        if words[1:2] == ["CREATE"] and words[2:3] in (["TABLE"], ["VIEW"], ["CATALOG"]) and len(words) > 3:
            return Answer(text=self._create_text(piece))
        what = words[1] if len(words) > 1 else ""
        if what in ("CATALOGS", "DATABASES", "SCHEMAS", "TABLES", "CURRENT"):
            return showing.shown(self._declared, piece, as_json=as_json)
        matches = like_of(piece, 2)
        if what == "VIEWS":
            names = [(view.name,) for view in self._declared.catalog.views.values() if matches(view.name)]
            return listing(("name",), names, as_json=as_json)
        if what == "FUNCTIONS":
            found = (f for f in describing.functions() if matches(f[0]))
            return listing(("name", "kind", "of"), found, as_json=as_json)
        raise piece.refuse(
            "SHL001",
            f"SHOW {what or '…'} is not known",
            f"write SHOW {', SHOW '.join(_SHOWN)}",
            word=1,
        )

    def _create_text(self, piece: Piece) -> str:
        catalog = self._declared.catalog
        if piece.words[2].upper == "CATALOG":
            name = piece.words[3].text
        else:
            found = self._find(piece, 3)
            name = found.name
            if isinstance(found, TableDef) and len(parts_of(name)) == 3:
                return written(found) + ";"
        for one in self._declared.pieces:
            if _declared_name(one) == name.lower() and piece.words[2].upper in _declared_kinds(one):
                return masked_sql(one.text, catalog) + ";"
        raise piece.refuse(
            "SHL004",
            f"`{name}` is a table of the state, which no statement creates"
            if name.startswith(STATE)
            else f"there is no {piece.words[2].text.lower()} `{name}` that a statement creates",
            "write DESCRIBE",
            word=3,
        )

    def _read_only(self, piece: Piece) -> DiagnosticError:
        file = self._declared.opened.file
        how = f"sqlstream run {file}" if file is not None else "sqlstream run FILE"
        return piece.refuse(
            "SHL002",
            f"the shell only reads: {piece.words[0].upper} is refused",
            f"put it into a pipeline's file, and `{how}`; a SELECT shows what it would write",
        )


def _is_generated(diagnostic: Diagnostic) -> bool:
    return diagnostic.span is not None and diagnostic.span.file == GENERATED


def _declared_kinds(piece: Piece) -> tuple[str, ...]:
    """What SHOW CREATE may call what a statement creates."""
    return ("CATALOG",) if "CATALOG" in _head(piece)[:2] else ("TABLE", "VIEW")


def _head(piece: Piece) -> list[str]:
    return [word.upper for word in piece.words[:4]]


def _declared_name(piece: Piece) -> str:
    """What a CREATE declares, in lower case; "" if that is nothing with a name."""
    words = [word.upper for word in piece.words]
    if words[0] != "CREATE":
        return ""
    at = next((i for i, word in enumerate(words[:5]) if word in ("TABLE", "VIEW", "TYPE", "CATALOG")), None)
    if at is None:
        return ""
    at += 4 if words[at + 1 : at + 4] == ["IF", "NOT", "EXISTS"] else 1
    return piece.words[at].text.lower() if at < len(piece.words) else ""
