"""SET: which settings are ours, which are Flink's and do nothing here, and which can't be."""

from __future__ import annotations

import difflib

from sqlstream_planner.catalog.job_options import JOB_OPTIONS, REFUSED, is_harmless
from sqlstream_planner.catalog.options import OptionValue, find_option, wrong_value
from sqlstream_planner.diagnostics import Diagnostic, did_you_mean
from sqlstream_planner.sql.statements import SetOption

#: DuckDB's names of settings that are Flink's, too.
_SAME = {"timezone": "table.local-time-zone"}


def default_settings() -> dict[str, OptionValue]:
    """The settings that have a default."""
    return {o.name: o.read(o.default) for o in JOB_OPTIONS if o.default is not None}


def read_setting(
    statement: SetOption,
    settings: dict[str, OptionValue],
    errors: list[Diagnostic],
    warnings: list[Diagnostic],
) -> None:
    """Take a SET over into `settings`; adds SET001 to SET003 to `errors`, SET004 to `warnings`."""
    key = _SAME.get(statement.key.lower(), statement.key)
    option = find_option(JOB_OPTIONS, key)
    if option is not None:
        try:
            settings[key] = option.read(statement.value)
        except ValueError as error:
            errors.append(wrong_value("SET002", key, statement.value, str(error), statement.value_span))
    elif key in REFUSED:
        errors.append(Diagnostic("SET003", f"`{key}` can't be set: {REFUSED[key]}", statement.key_span))
    elif is_harmless(key) and not _nearly_ours(key):
        warnings.append(
            Diagnostic(
                "SET004",
                f"`{key}` is a setting of Flink's that does nothing here",
                statement.key_span,
                help="remove the line",
                severity="warning",
            )
        )
    else:
        names = [o.name for o in JOB_OPTIONS]
        near = did_you_mean(key, names)
        help_ = f"did you mean '{near}'?" if near else None
        if key == "sql.semantics":
            help_ = "write expressions as DuckDB has them: i // 2, CAST(TRUNC(x) AS INT); docs/flink.md lists what differs"
        errors.append(
            Diagnostic(
                "SET001",
                f"there is no setting `{key}`",
                statement.key_span,
                notes=("settings: " + ", ".join(names),),
                help=help_,
            )
        )


def _nearly_ours(key: str) -> bool:
    """Whether `key` is a setting of ours with a slip of the finger, though Flink has others like it."""
    return bool(difflib.get_close_matches(key, [o.name for o in JOB_OPTIONS], n=1, cutoff=0.93))
