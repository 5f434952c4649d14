"""What can stand where the cursor is: keywords, tables, columns, functions, settings and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlstream.connectors.registry import REGISTERED
from sqlstream.shell import describing
from sqlstream.shell.commands import COMMANDS
from sqlstream.shell.pieces import split
from sqlstream.shell.session import Session
from sqlstream.shell.tables import STATE
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.catalog.job_options import JOB_OPTIONS
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import SqlstreamError
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.text.name_lists import names_in

KEYWORDS = tuple(
    names_in(
        """
        ALL AND ANY AS ASC BETWEEN BY CASE CAST CATALOG CATALOGS CREATE CROSS CUMULATE CURRENT_DATE CURRENT_TIMESTAMP
        DATABASES DATE DESC DESCRIBE DESCRIPTOR DISTINCT DROP ELSE END EXCEPT EXISTS EXIT EXPLAIN FALSE FILTER FOR
        FROM FULL FUNCTIONS GROUP HAVING HELP HOP IN INNER INTERSECT INTERVAL INTO IS JOIN KEY LATERAL LEFT LIKE LIMIT
        NOT NULL OF ON OR ORDER OUTER OVER PARTITION PRIMARY QUALIFY QUIT RESET RIGHT SELECT SESSION SET SHOW
        SYSTEM_TIME TABLE TABLES TEMPORARY THEN TIME TIMESTAMP TRUE TUMBLE UNION UNNEST USE USING VALUES VIEW VIEWS
        WATERMARK WHEN WHERE WITH
        """
    )
)
_FIRST = (
    "CREATE",
    "DESCRIBE",
    "DROP",
    "EXPLAIN",
    "FROM",
    "HELP",
    "QUIT",
    "SELECT",
    "SET",
    "SHOW",
    "USE",
    "VALUES",
    "WITH",
)
_AFTER = {
    "SHOW": ("TABLES", "VIEWS", "CATALOGS", "DATABASES", "FUNCTIONS", "CREATE TABLE", "CREATE VIEW"),
    "CREATE": ("TABLE", "TEMPORARY VIEW", "VIEW", "CATALOG"),
    "USE": ("CATALOG",),
    "DROP": ("TABLE", "VIEW"),
    "EXPLAIN": ("SELECT",),
}
_TABLE_BEFORE = ("FROM", "JOIN", "TABLE", "DESCRIBE", "DESC", "\\D")
_WORD = re.compile(r"[\w.\\`]*\Z")
_LAST = re.compile(r"(\\?\w+|[^\w\s])\s*\Z")
#: A name in a FROM clause, and what it is called there.
_SOURCES = re.compile(
    r"\b(?:FROM|JOIN|TABLE|,)\s*(?:TABLE\s+)?(`[^`]+`|\"[^\"]+\"|[\w.]+)(?:\s+(?:AS\s+)?(\w+))?",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"'([^']*)\Z")
_CONNECTOR = re.compile(r"'connector'\s*=\s*'([^']*)'", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A text that can stand in place of the last `replaces` characters, and what it is."""

    text: str
    replaces: int
    kind: str


@dataclass(slots=True)
class Completer:
    """Proposals for what is typed in a session; what is looked up is kept until `forget`."""

    session: Session
    _catalog: Catalog | None = None
    _columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _named: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _functions: tuple[str, ...] = ()

    def forget(self) -> None:
        """Look up tables and columns anew, as a statement may have declared others."""
        self._catalog = None
        self._columns.clear()
        self._named.clear()

    def proposals(self, before: str, behind: str = "") -> Iterator[Proposal]:
        """What can stand between two texts, as far as the last statement of the first goes; it begins as what is typed."""
        text = _statement(before)
        quoted = _in_text(text)
        if quoted is not None:
            yield from _matching(quoted, _quoted(text), "option")
            return
        found = _WORD.search(text)
        word = found[0] if found is not None else ""
        head = text[: len(text) - len(word)]
        last = _LAST.search(head)
        previous = "" if last is None else last[1].upper()
        if not head.strip():
            if word.startswith("\\"):
                yield from _matching(word, COMMANDS, "command")
            else:
                yield from _matching(word, _FIRST, "keyword")
            return
        if previous in _TABLE_BEFORE:
            yield from _matching(word, (*self._tables(), *self._in_catalogs(word)), "table")
            if previous == "FROM":
                yield from _matching(word, ("TABLE(",), "keyword")
            return
        if previous in _AFTER and previous == head.strip().upper():
            yield from _matching(word, _AFTER[previous], "keyword")
            return
        scope = self._scope(text + behind.partition(";")[0])
        if "." in word:
            owner, _, rest = word.rpartition(".")
            yield from _matching(rest, self._of(scope.get(owner.lower(), owner)), "column")
            return
        # A SELECT is typed before its FROM.
        read = scope.values() or [name for name in self._tables() if not name.startswith(STATE)]
        columns = dict.fromkeys(c for table in dict.fromkeys(read) for c in self._of(table))
        if word or scope:
            yield from _matching(word, tuple(columns), "column")
        if word:
            yield from _matching(word, tuple(scope), "table")
            yield from _matching(word, KEYWORDS, "keyword")
            yield from _matching(word, self._calls(word), "function")

    def _tables(self) -> tuple[str, ...]:
        if self._catalog is None:
            try:
                self._catalog = self.session.readable
            except SqlstreamError:
                return ()
        return tuple(_as_written(name) for name in self._catalog.names)

    def _in_catalogs(self, word: str) -> tuple[str, ...]:
        """What may be typed next of a name in a catalog; each catalog and database is asked once until `forget`."""
        key = word.rpartition(".")[0].lower()
        if key not in self._named:
            try:
                self._named[key] = tuple(self.session.in_catalogs(word))
            except SqlstreamError:
                self._named[key] = ()
        return self._named[key]

    def _scope(self, statement: str) -> dict[str, str]:
        """The tables that a statement reads, by what they are called in it, in lower case."""
        known = {name.lower(): name for name in self._tables()}
        found: dict[str, str] = {}
        for match in _SOURCES.finditer(statement):
            name = known.get(match[1].lower()) or known.get(match[1].strip('`"').lower())
            if name is not None:
                alias = match[2] if match[2] and match[2].upper() not in KEYWORDS else name.rpartition(".")[2]
                found[alias.lower()] = name
        return found

    def _of(self, table: str) -> tuple[str, ...]:
        if table not in self._columns:
            try:
                columns = self.session.columns(table.strip("`"))
            except SqlstreamError:
                columns = ()
            self._columns[table] = tuple(_as_written(column.name) for column in columns)
        return self._columns[table]

    def _calls(self, word: str) -> tuple[str, ...]:
        if not self._functions:
            self._functions = tuple(name for name, _, _ in describing.functions())
        return tuple(f"{name.upper() if word.isupper() else name}(" for name in self._functions)


def _statement(before: str) -> str:
    """What of a text belongs to its last statement."""
    try:
        return before[split(RenderedSql.plain(before, "")).rest :].lstrip("\n")
    except SqlstreamError:
        return before


def _in_text(text: str) -> str | None:
    """What stands behind a quote that is not closed."""
    found = _IN_TEXT.search(text)
    return found[1] if found is not None and text.count("'") % 2 else None


def _quoted(text: str) -> Sequence[str]:
    """What can stand in quotes: settings behind SET, else connectors and their options."""
    if text.lstrip().upper().startswith(("SET", "RESET")):
        return tuple(option.name for option in JOB_OPTIONS) if text.count("'") == 1 else ()
    if not re.search(r"\bWITH\s*\(", text, re.IGNORECASE):
        return ()
    if re.search(r"'connector'\s*=\s*'[^']*\Z", text, re.IGNORECASE):
        return tuple(name for name in REGISTERED.descriptors.names if name != ONE_ROW)
    value = re.search(r"'([^']+)'\s*=\s*'[^']*\Z", text)
    chosen = _CONNECTOR.search(text)
    descriptor = None if chosen is None else REGISTERED.descriptors.get(chosen[1])
    options = () if descriptor is None else descriptor.all_options
    if value is not None:
        return tuple(choice for o in options if o.name == value[1] for choice in o.choices)
    return ("connector", *dict.fromkeys(option.name for option in options))


def _matching(word: str, names: Sequence[str], kind: str) -> Iterator[Proposal]:
    for name in sorted(names, key=str.lower) if kind != "column" else names:
        if name.lower().startswith(word.lower()) and name != word:
            lower = kind == "keyword" and word != "" and word.islower()
            yield Proposal(name.lower() if lower else name, len(word), kind)


def _as_written(name: str) -> str:
    """A name as it can stand in a statement."""
    plain = re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name) and name.upper() not in KEYWORDS
    return name if plain else f"`{name}`"
