"""Reading the values of a format's options.

The planner has checked names and values already (it knows the place in the file); what is raised here only names the
option.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def bad_option(name: str, value: str, expected: str) -> DiagnosticError:
    """The error for an option whose value can't be used."""
    return DiagnosticError(Diagnostic("OPT003", f"option '{name}' is '{value}'; expected {expected}"))


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A boolean option.

    >>> flag({"csv.allow-comments": "TRUE"}, "csv.allow-comments")
    True
    """
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise bad_option(name, text, "'true' or 'false'")
    return text.strip().lower() == "true"


def character(options: Mapping[str, str], name: str, default: str | None) -> str | None:
    """One character; tabs may be written `\\\\t`, as in Flink.

    >>> character({"csv.field-delimiter": "\\\\t"}, "csv.field-delimiter", ",") == chr(9)
    True
    """
    text = options.get(name)
    if text is None:
        return default
    text = text.replace("\\t", "\t")
    if len(text) != 1:
        raise bad_option(name, text, "one character")
    return text


def iso_timestamps(options: Mapping[str, str], format_: str) -> bool:
    """Whether a format writes timestamps as ISO 8601 has them."""
    return options.get(f"{format_}.timestamp-format.standard", "SQL").strip().upper() == "ISO-8601"
