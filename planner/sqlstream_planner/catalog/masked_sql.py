"""The SQL of a file as it may be kept: without passwords, and still the same to the planner."""

from __future__ import annotations

from sqlstream_planner.catalog.foreign.descriptor import CatalogDef
from sqlstream_planner.catalog.secrets import REFERENCE
from sqlstream_planner.catalog.tables import Catalog, TableDef
from sqlstream_planner.sql.dialect.lexer import comments, lex
from sqlstream_planner.text.masking import HIDDEN


def masked_sql(sql: str, catalog: Catalog) -> str:
    """Rendered SQL with stars for the passwords in the options of its tables and catalogs, and in comments."""
    declared: list[TableDef | CatalogDef] = [*catalog.tables.values(), *catalog.catalogs]
    instead = {
        (option.key, option.value): REFERENCE.sub(HIDDEN, one.stored[option.key])
        for one in declared
        for option in one.options
        if one.stored.get(option.key, option.value) != option.value
    }
    cuts: list[tuple[int, int, str]] = []
    tokens = lex(sql).tokens
    for key, equals, value in zip(tokens, tokens[1:], tokens[2:], strict=False):
        new = instead.get((key.text, value.text))
        if new is not None and equals.text == "=":
            cuts.append((value.start, value.end + 1, "'" + new.replace("'", "''") + "'"))
    for start, end in comments(sql):
        text = sql[start:end]
        for secret in sorted(catalog.secrets.values.values(), key=len, reverse=True):
            text = text.replace(secret, HIDDEN) if secret else text
        cuts.append((start, end, text))
    done, parts = 0, []
    for start, end, new in sorted(cuts):
        parts += [sql[done:start], new]
        done = end
    return "".join([*parts, sql[done:]])
