"""SHOW CATALOGS, DATABASES, TABLES and CURRENT …: what there is in the file, and in the catalogs that are declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlstream.shell import describing
from sqlstream.shell.answers import Answer, listing
from sqlstream.shell.declared import Declared
from sqlstream.shell.pieces import Piece
from sqlstream_planner.catalog.foreign.descriptor import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogDef,
    CatalogReader,
)
from sqlstream_planner.catalog.foreign.lookup import NotThereError, same_name
from sqlstream_planner.diagnostics import DiagnosticError, suggestion


def shown(declared: Declared, piece: Piece, *, as_json: bool) -> Answer:
    """The answer of a SHOW. Raises DiagnosticError: SHL001, SHL004, and what a catalog raises."""
    what = piece.words[1].upper
    foreign = declared.foreign
    if what == "CURRENT":
        asked = piece.words[2].upper if len(piece.words) == 3 else ""
        if asked not in ("CATALOG", "DATABASE"):
            help_ = "write SHOW CURRENT CATALOG or SHOW CURRENT DATABASE"
            raise piece.refuse("SHL001", "SHOW CURRENT needs CATALOG or DATABASE", help_, word=1)
        return listing(("name",), [(foreign.in_use[asked == "DATABASE"],)], as_json=as_json)
    place, at = _place(piece)
    matches = like_of(piece, at)
    if what == "CATALOGS":
        if place:
            raise piece.refuse("SHL001", f"unexpected `{piece.words[2].text}`", "write SHOW CATALOGS", word=2)
        found = [(DEFAULT_CATALOG, None), *((one.name, one.descriptor.name) for one in foreign.catalogs)]
        return listing(("name", "type"), (r for r in found if matches(r[0])), as_json=as_json)
    if what in ("DATABASES", "SCHEMAS"):
        catalog = _catalog(declared, piece, place[0] if place else foreign.in_use[0])
        names = [DEFAULT_DATABASE] if catalog is None else list(_reader(declared, catalog).databases())
        return listing(("name",), ((name,) for name in names if matches(name)), as_json=as_json)
    catalog = _catalog(declared, piece, place[0] if len(place) == 2 else foreign.in_use[0])
    database = place[-1] if place else foreign.in_use[1]
    if catalog is None:
        if database.lower() != DEFAULT_DATABASE:
            raise _no_database(declared, piece, DEFAULT_CATALOG, database, [DEFAULT_DATABASE])
        rows = describing.listed(declared.catalog, declared.state_tables(), tuple(declared.opened.sinks))
    else:
        rows = _tables(declared, piece, catalog, database)
    return listing(describing.LISTED, (r for r in rows if matches(r[0] or "")), as_json=as_json)


def _tables(declared: Declared, piece: Piece, catalog: CatalogDef, database: str) -> describing.Rows:
    reader = _reader(declared, catalog)
    there = reader.databases()
    try:
        spelled = same_name(database, there)
    except NotThereError:
        raise _no_database(declared, piece, catalog.name, database, list(there)) from None
    for name in reader.tables(spelled):
        yield name, "table", catalog.descriptor.name


def _no_database(
    declared: Declared, piece: Piece, catalog: str, name: str, there: list[str]
) -> DiagnosticError:
    same = next((one for one in declared.foreign.catalogs if one.name.lower() == name.lower()), None)
    meant = None if same is None else f"write SHOW TABLES FROM {same.name}.{same.default_database}"
    return piece.refuse(
        "SHL004",
        f"the catalog `{catalog}` has no database `{name}`",
        meant or suggestion(name, there) or f"SHOW DATABASES FROM {catalog} lists all",
        word=3,
    )


def _catalog(declared: Declared, piece: Piece, name: str) -> CatalogDef | None:
    """The catalog of this name, None for the file's own. Raises DiagnosticError (SHL004)."""
    if name.lower() == DEFAULT_CATALOG:
        return None
    known = declared.foreign.catalogs
    found = next((one for one in known if one.name.lower() == name.lower()), None)
    if found is None:
        names = [one.name for one in known]
        help_ = suggestion(name, names) or "SHOW CATALOGS lists all"
        raise piece.refuse("SHL004", f"there is no catalog `{name}`", help_, word=3)
    return found


def _reader(declared: Declared, catalog: CatalogDef) -> CatalogReader:
    return declared.catalogs.open(catalog)


def _place(piece: Piece) -> tuple[tuple[str, ...], int]:
    """The name behind FROM or IN, and the word that comes after it. Raises DiagnosticError (SHL001)."""
    words = piece.words
    if len(words) < 3 or words[2].upper not in ("FROM", "IN"):
        return (), 2
    if len(words) < 4:
        raise piece.refuse("SHL001", f"{words[2].upper} needs a name", "write SHOW TABLES FROM c.db", word=2)
    parts = dotted_words(piece, 3)
    if len(parts) > (2 if words[1].upper == "TABLES" else 1):
        raise piece.refuse("SHL001", f"`{'.'.join(parts)}` has too many parts", None, word=3)
    return parts, 2 + 2 * len(parts)


def dotted_words(piece: Piece, at: int) -> tuple[str, ...]:
    """The parts of the name that begins at a word, with dots between them."""
    parts = [piece.words[at].text]
    for dot, part in zip(piece.words[at + 1 :: 2], piece.words[at + 2 :: 2], strict=False):
        if dot.text != ".":
            break
        parts.append(part.text)
    return tuple(parts)


def like_of(piece: Piece, at: int) -> Callable[[str], bool]:
    """The condition of SHOW … LIKE 'pattern'. Raises DiagnosticError (SHL001)."""
    words = piece.words[at:]
    if not words or piece.words[1].upper == "CREATE":
        return lambda name: True
    if words[0].upper not in ("LIKE", "ILIKE") or len(words) != 2:
        raise piece.refuse("SHL001", f"unexpected `{words[0].text}`", "write SHOW … LIKE 'a%'", word=at)
    pattern = describing.like(words[1].text)
    return lambda name: pattern.fullmatch(name) is not None


def proposed(declared: Declared, word: str) -> Iterator[str]:
    """Names of tables of catalogs that may stand where `word` is typed, as far as they are asked for: `c.`, `c.db.`.

    Raises what a catalog raises.
    """
    catalogs = {one.name.lower(): one for one in declared.foreign.catalogs}
    parts = word.split(".")
    yield from (one.name for one in catalogs.values() if len(parts) == 1)
    catalog = catalogs.get(parts[0].lower())
    if catalog is None:
        return
    reader = _reader(declared, catalog)
    if len(parts) == 2:
        yield from (f"{catalog.name}.{name}" for name in reader.databases())
    elif len(parts) == 3:
        yield from (f"{catalog.name}.{parts[1]}.{name}" for name in reader.tables(parts[1]))
