"""What dimension tables in databases share: their columns, and the diagnostics for a table that is not as declared."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean


def no_table(name: str, location: str, there: Sequence[str]) -> DiagnosticError:
    """The error for a table that is not there; `there` are those that are."""
    near = did_you_mean(location.split(" in ")[0].removeprefix("table "), there)
    return DiagnosticError(
        Diagnostic(
            "DAT009",
            f"`{name}` can't be looked up: there is no {location}",
            notes=(f"it has the tables {', '.join(there)}" if there else "it has no tables",),
            help=f"did you mean 'table-name' = '{near}'?" if near else "say which with 'table-name' = '…'",
        )
    )


def other_columns(
    name: str, location: str, wrong: Sequence[tuple[str, str, str | None]], there: Sequence[tuple[str, str]]
) -> DiagnosticError:
    """The error for columns that a table has not, or not as declared: (name, declared type, type there)."""
    column, declared, found = wrong[0]
    near = did_you_mean(column, [other for other, _ in there])
    help_ = f"did you mean `{near}`?" if near else None
    if found is not None:
        help_ = (
            f"declare `{column}` as a type that has all values of {found}, or look up a view that casts it"
        )
    return DiagnosticError(
        Diagnostic(
            "DAT009",
            f"`{name}` can't be looked up: {location} "
            + (
                f"has no column `{column}`"
                if found is None
                else f"has {found} as its column `{column}`, which is declared as {declared}"
            ),
            notes=(f"it has ({', '.join(f'{n} {t}' for n, t in there)})",),
            help=help_,
        )
    )
