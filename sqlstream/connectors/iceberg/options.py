"""The options that say which table of which catalog it is, as data and read once; they are called as in Flink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlstream.connectors.filesystem.paths import is_local, resolve, split_location
from sqlstream.connectors.options import bad_option
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
from sqlstream_planner.catalog.options import OptionDef, OptionValue, ValueKind
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.text.masking import without_password

if TYPE_CHECKING:
    from sqlstream_planner.diagnostics import Span
    from sqlstream_planner.sql.statements import Option

REST, SQL, GLUE = "rest", "sql", "glue"
_TYPES = (REST, SQL, GLUE)
_SQLITE = "sqlite:///"
_DATABASE = "default"

#: Which types of catalogs have an option, and how these are called.
_ONLY = {
    "uri": (REST, SQL),
    "credential": (REST,),
    "token": (REST,),
    "client.region": (GLUE,),
    "glue.id": (GLUE,),
    "glue.endpoint": (GLUE,),
}
_CALLED = {(REST, SQL): "a REST catalog or a database", (REST,): "a REST catalog", (GLUE,): "AWS Glue"}
_IS = {REST: "a REST catalog", SQL: "in a database", GLUE: "in AWS Glue"}
_INSTEAD = {
    REST: "",
    SQL: "; a database's password is in `uri`",
    GLUE: "; credentials of AWS Glue are found as AWS's tools find them, and its place is 'client.region'",
}


def _wrong_uri(text: str) -> str | None:
    return (
        None
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://.", text.strip())
        else "a URI, such as 'http://host:8181'"
    )


def _wrong_name(text: str) -> str | None:
    return None if text.strip() and not text.startswith(".") and not text.endswith(".") else "a name"


TABLE_OPTIONS = (
    OptionDef(
        "catalog-type",
        ValueKind.ENUM,
        "'rest': a server with Iceberg's REST interface; 'sql': tables of a database that all writers use; 'glue': AWS Glue",
        required=True,
        choices=_TYPES,
    ),
    OptionDef(
        "uri",
        ValueKind.STRING,
        "where the catalog is: 'https://…' of a REST catalog, 'sqlite:///lake/catalog.db' or 'postgresql+psycopg://…' "
        "of a database; AWS Glue has none",
        refuse=_wrong_uri,
    ),
    OptionDef(
        "client.region",
        ValueKind.STRING,
        "the region of AWS Glue, 'eu-west-1', and of the warehouse in S3 if that names none",
        refuse=_wrong_name,
    ),
    OptionDef(
        "glue.id",
        ValueKind.STRING,
        "the account whose Glue it is, 12 digits; without it that of the credentials",
        refuse=lambda text: None if re.fullmatch(r"\s*\d{12}\s*", text) else "an account's 12 digits",
    ),
    OptionDef(
        "glue.endpoint",
        ValueKind.STRING,
        "where AWS Glue answers, 'https://…', if not where AWS's tools look for it",
        refuse=_wrong_uri,
    ),
    OptionDef(
        "catalog-name",
        ValueKind.STRING,
        "what the catalog is called: in a database several may be beside each other",
        default="default",
        refuse=_wrong_name,
    ),
    OptionDef(
        "warehouse",
        ValueKind.PATH,
        "where tables are created, a folder or a URI with the options of its store; of a REST catalog its name there",
    ),
    OptionDef(
        "catalog-database",
        ValueKind.STRING,
        "the table's namespace in the catalog, with dots between its parts",
        default=_DATABASE,
        refuse=_wrong_name,
    ),
    OptionDef(
        "catalog-table",
        ValueKind.STRING,
        "what the table is called in the catalog; without it as it is here",
        refuse=_wrong_name,
    ),
    OptionDef(
        "credential",
        ValueKind.STRING,
        "'id:secret' for which a REST catalog gives a token",
        secret=True,
        changes_rows=False,
        changes_output=False,
    ),
    OptionDef(
        "token",
        ValueKind.STRING,
        "the token that a REST catalog takes",
        secret=True,
        changes_rows=False,
        changes_output=False,
    ),
)
#: What says which table it is, whatever it is called here.
PLACE = ("uri", "client.region", "glue.id", "catalog-name", "warehouse", "catalog-database", "catalog-table")


def wrong_catalog(
    options: Iterable[Option], settings: Mapping[str, OptionValue], what: str, span: Span
) -> Iterator[Diagnostic]:
    """What a catalog of the type that is given lacks or has no use for; `what` and `span` are who has the options."""
    type_ = str(settings.get("catalog-type", "")).lower()
    given = {option.key: option for option in options}
    needed = "client.region" if type_ == GLUE else "uri"
    if needed not in given:
        example = (
            "eu-west-1" if type_ == GLUE else "sqlite:///lake/catalog.db" if type_ == SQL else "https://…"
        )
        yield Diagnostic(
            "OPT002",
            f"{what} needs the option `{needed}` with 'catalog-type' = '{type_}'",
            span,
            help=f"add '{needed}' = '{example}'",
        )
    for name, types in _ONLY.items():
        if name in given and type_ not in types:
            yield Diagnostic(
                "OPT003",
                f"`{name}` is of {_CALLED[types]}, and this one is {_IS[type_]}",
                given[name].key_span,
                help=f"leave it out{_INSTEAD[type_]}",
            )


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table in a catalog. `uri` of SQLite has an absolute path; `warehouse` is resolved, "" if it is not known.

    `opening` is what opens the files of the warehouse's store, and is no part of their names.
    """

    catalog: str
    type: str
    uri: str = field(repr=False)
    database: str
    table: str
    warehouse: str = ""
    opening: str = field(default="", repr=False)
    credential: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    region: str = ""
    account: str = ""
    endpoint: str = field(default="", repr=False)

    @property
    def identifier(self) -> tuple[str, ...]:
        """The namespace's parts, and the name."""
        return (*self.database.split("."), self.table)

    @property
    def shown(self) -> str:
        """For messages; no password."""
        return f"{self.database}.{self.table} of {self.where}"

    @property
    def where(self) -> str:
        """The catalog, for messages; no password."""
        if self.type != GLUE:
            return without_password(self.uri)
        account = f", account {self.account}" if self.account else ""
        at = f" at {without_password(self.endpoint)}" if self.endpoint else ""
        return f"AWS Glue ({self.region}{account}){at}"

    @property
    def sqlite_file(self) -> str | None:
        """The file of a catalog in SQLite; None: it is elsewhere."""
        return self.uri[len(_SQLITE) :] if self.uri.startswith(_SQLITE) else None

    @classmethod
    def of(cls, spec: SourceSpec | SinkSpec, base_dir: str) -> TablePlace:
        """Raises DiagnosticError for a value that can't be used."""
        return cls.read(spec.options, spec.name, base_dir)

    @classmethod
    def read(cls, options: Mapping[str, str], name: str, base_dir: str) -> TablePlace:
        """The table that options mean; `name` is what it is called here. Raises DiagnosticError."""
        type_ = options.get("catalog-type", "").strip().lower()
        if type_ not in _TYPES:
            raise bad_option("catalog-type", type_, "'rest', 'sql' or 'glue'")
        uri, region = options.get("uri", "").strip(), options.get("client.region", "").strip()
        wrong = None if type_ == GLUE else _wrong_uri(uri)
        if wrong is not None:
            raise bad_option("uri", without_password(uri), wrong)
        if type_ == GLUE and not region:
            raise bad_option("client.region", region, "a region, such as 'eu-west-1'")
        warehouse, opening = options.get("warehouse", "").strip(), ""
        if warehouse and (type_ != REST or "://" in warehouse):
            warehouse, opening = split_location(resolve(warehouse, base_dir))
            if is_local(warehouse):
                warehouse = f"file://{warehouse}"
        if type_ == GLUE and not re.search(r"[?&](aws_)?region=", opening):
            opening += f"{'&' if '?' in opening else '?'}region={region}"
        return cls(
            options.get("catalog-name", "default").strip(),
            type_,
            _resolved(uri, base_dir),
            options.get("catalog-database", _DATABASE).strip(),
            options.get("catalog-table", "").strip() or name,
            warehouse,
            opening,
            options.get("credential", ""),
            options.get("token", ""),
            region,
            options.get("glue.id", "").strip(),
            options.get("glue.endpoint", "").strip().rstrip("/"),
        )


def _resolved(uri: str, base_dir: str) -> str:
    """A URI with the path of a file from its root, as sqlalchemy writes it."""
    if not uri.startswith(_SQLITE):
        return uri.rstrip("/")
    path = uri[len(_SQLITE) :]
    return _SQLITE + os.path.normpath(os.path.join(base_dir, path))  # noqa: PTH118  # it need not be there
