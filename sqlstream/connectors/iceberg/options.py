"""The options that say which table of which catalog it is, as data and read once; they are called as in Flink."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.filesystem.paths import is_local, resolve, split_location
from sqlstream.connectors.options import bad_option
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
from sqlstream_planner.catalog.options import OptionDef, ValueKind
from sqlstream_planner.text.masking import without_password

REST, SQL, GLUE = "rest", "sql", "glue"
_SQLITE = "sqlite:///"
_DATABASE = "default"


def _wrong_uri(text: str) -> str | None:
    return (
        None
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://.", text.strip())
        else "a URI, such as 'http://host:8181'"
    )


def _wrong_name(text: str) -> str | None:
    return None if text.strip() and not text.startswith(".") and not text.endswith(".") else "a name"


#: Of AWS Glue, as Iceberg's catalog for it calls them. Who asks is found as AWS's tools find it, and is no option.
GLUE_OPTIONS = (
    OptionDef(
        "client.region",
        ValueKind.STRING,
        "AWS's region of a Glue catalog; without it as AWS's tools find it",
        refuse=_wrong_name,
    ),
    OptionDef(
        "glue.id",
        ValueKind.STRING,
        "the AWS account of a Glue catalog; without it the account of who asks",
        refuse=_wrong_name,
    ),
    OptionDef(
        "glue.endpoint",
        ValueKind.STRING,
        "where Glue answers, if it is not AWS's own address of the region: 'http://host:port'",
        refuse=_wrong_uri,
    ),
)
TABLE_OPTIONS = (
    OptionDef(
        "catalog-type",
        ValueKind.ENUM,
        "'rest': a server with Iceberg's REST interface; 'sql': tables of a database that all writers use; 'glue': AWS Glue",
        required=True,
        choices=(REST, SQL, GLUE),
    ),
    OptionDef(
        "uri",
        ValueKind.STRING,
        "where the catalog is: 'https://…' of a REST catalog, 'sqlite:///lake/catalog.db' or 'postgresql+psycopg://…' "
        "of a database; AWS Glue has none",
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
    *GLUE_OPTIONS,
)
#: What says which table it is, whatever it is called here.
PLACE = (
    "uri",
    "catalog-name",
    "warehouse",
    "catalog-database",
    "catalog-table",
    *(o.name for o in GLUE_OPTIONS),
)


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table in a catalog. `uri` of SQLite has an absolute path; `warehouse` is resolved, "" if it is not known.

    `opening` is what opens the files of the warehouse's store, and is no part of their names. The last three are of AWS
    Glue, which has no `uri`; "" is what AWS's tools take.
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
    endpoint: str = ""

    @property
    def identifier(self) -> tuple[str, ...]:
        """The namespace's parts, and the name."""
        return (*self.database.split("."), self.table)

    @property
    def shown(self) -> str:
        """For messages; no password."""
        return f"{self.database}.{self.table} of {self.shown_catalog}"

    @property
    def shown_catalog(self) -> str:
        """For messages; no password."""
        if self.type != GLUE:
            return without_password(self.uri)
        where = [one for one in (self.region, self.account, without_password(self.endpoint)) if one]
        return f"AWS Glue ({', '.join(where)})" if where else "AWS Glue"

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
        if type_ not in (REST, SQL, GLUE):
            raise bad_option("catalog-type", type_, "'rest', 'sql' or 'glue'")
        uri = options.get("uri", "").strip()
        wrong = _wrong_uri(uri) if type_ != GLUE else None
        if wrong is not None:
            raise bad_option("uri", without_password(uri), wrong)
        warehouse, opening = options.get("warehouse", "").strip(), ""
        if warehouse and (type_ != REST or "://" in warehouse):
            warehouse, opening = split_location(resolve(warehouse, base_dir))
            if is_local(warehouse):
                warehouse = f"file://{warehouse}"
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
            options.get("client.region", "").strip(),
            options.get("glue.id", "").strip(),
            options.get("glue.endpoint", "").strip().rstrip("/"),
        )


def _resolved(uri: str, base_dir: str) -> str:
    """A URI with the path of a file from its root, as sqlalchemy writes it."""
    if not uri.startswith(_SQLITE):
        return uri.rstrip("/")
    path = uri[len(_SQLITE) :]
    return _SQLITE + os.path.normpath(os.path.join(base_dir, path))  # noqa: PTH118  # it need not be there
