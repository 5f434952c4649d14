"""Where a schema registry is and who asks it: the options that Flink's formats have, each behind the format's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream.formats.api import RecordFormat

_S = ValueKind.STRING


def registry_options(format_: str, *, schema: bool = True) -> tuple[OptionDef, ...]:
    """The options of a format whose schemas are in a registry; `schema`: whether an option may hold one."""

    def option(
        name: str,
        description: str,
        kind: ValueKind = _S,
        *,
        required: bool = False,
        secret: bool = False,
        changes_rows: bool = False,
        choices: tuple[str, ...] = (),
    ) -> OptionDef:
        return OptionDef(
            f"{format_}.{name}",
            kind,
            description,
            required=required,
            secret=secret,
            choices=choices,
            changes_rows=changes_rows,
            changes_output=changes_rows,
        )

    given = option(
        "schema",
        "the schema of the table as text, in place of the one that follows from its columns",
        changes_rows=True,
    )
    return (
        *((given,) if schema else ()),
        # A record names its schema by a number, and another registry may know another schema by it.
        option("url", "the registry's address, or several with commas", required=True, changes_rows=True),
        OptionDef(
            f"{format_}.subject",
            _S,
            "the subject that a sink registers its schema under; by default <topic>-value, of a key <topic>-key",
            roles=(Role.SINK,),
        ),
        option(
            "basic-auth.credentials-source",
            "where name and password are",
            ValueKind.ENUM,
            choices=("USER_INFO", "URL"),
            secret=True,
        ),
        option("basic-auth.user-info", "name:password", secret=True),
        option(
            "bearer-auth.credentials-source",
            "where the token is",
            ValueKind.ENUM,
            choices=("STATIC_TOKEN",),
            secret=True,
        ),
        option("bearer-auth.token", "the token", secret=True),
        option("ssl.truststore.location", "certificates that are trusted, a PEM file"),
        option("ssl.truststore.password", "the password of that file; PEM has none", secret=True),
        option("ssl.keystore.location", "this client's certificate and key, a PEM file"),
        option("ssl.keystore.password", "the password of the key", secret=True),
    )


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The options as read; equal settings share one client. Nothing of it may be shown but `urls`."""

    urls: tuple[str, ...]
    user_info: str = ""
    token: str = ""
    truststore: str = ""
    keystore: str = ""
    keystore_password: str = ""

    @classmethod
    def of(cls, format_: str, options: Mapping[str, str]) -> RegistrySettings:
        """The settings in a format's options. Raises DiagnosticError (OPT003, OPT004)."""

        def get(name: str) -> str:
            return options.get(f"{format_}.{name}", "").strip()

        urls = tuple(url.strip().rstrip("/") for url in get("url").split(",") if url.strip())
        if not urls:
            raise DiagnosticError(
                Diagnostic(
                    "OPT004",
                    f"option '{format_}.url' is missing",
                    help=f"'{format_}.url' = 'http://localhost:8081'",
                )
            )
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise DiagnosticError(
                    Diagnostic(
                        "OPT003", f"option '{format_}.url': expected http://host:port or https://host:port"
                    )
                )
        for name in ("ssl.truststore.location", "ssl.keystore.location"):
            if get(name).lower().endswith((".jks", ".p12", ".pfx")):
                raise DiagnosticError(
                    Diagnostic(
                        "OPT003",
                        f"option '{format_}.{name}': expected a PEM file",
                        notes=("Java's stores can't be read here.",),
                        help=f"openssl pkcs12 -in {get(name)} -out store.pem",
                    )
                )
        return cls(
            urls,
            get("basic-auth.user-info"),
            get("bearer-auth.token"),
            get("ssl.truststore.location"),
            get("ssl.keystore.location"),
            get("ssl.keystore.password"),
        )


def subject_of(format_: RecordFormat) -> str:
    """The subject that a sink's schema is registered under. Raises DiagnosticError (OPT004) if none is known."""
    subject = format_.options.get(f"{format_.name}.subject", "").strip() or format_.subject
    if not subject:
        raise DiagnosticError(
            Diagnostic(
                "OPT004",
                f"option '{format_.name}.subject' is missing",
                notes=("The sink has no topic that the subject could be called after.",),
            )
        )
    return subject
