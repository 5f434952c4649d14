"""The options of connectors, formats and tables, from their descriptors; the settings, from their list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docs.site.markdown import fenced, table
from sqlstream.connectors.registry import REGISTERED
from sqlstream.formats.registry import REGISTERED as FORMATS
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, FormatDescriptor
from sqlstream_planner.catalog.job_options import JOB_OPTIONS, REFUSED
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS
from sqlstream_planner.catalog.options import OptionDef, Role
from sqlstream_planner.catalog.source_options import SOURCE_OPTIONS

_HEADING = ("option", "type", "default", "used by", "what it does")
_GENERATED = "This page is made of {} when the site is built."


def option_pages() -> dict[str, str]:
    """The pages by their path in the site."""
    pages = {f"reference/connectors/{c.name}.md": _connector(c) for c in REGISTERED.descriptors}
    pages |= {f"reference/formats/{f.name}.md": _format(f.descriptor) for f in FORMATS}
    return {**pages, "reference/table-options.md": _tables(), "reference/settings.md": _settings()}


def _connector(connector: ConnectorDescriptor) -> str:
    own = [o for o in connector.options if o not in LOOKUP_OPTIONS]
    lines = [
        f"# Options of the connector {connector.name}\n",
        f"After reading this page you know every option of `'connector' = '{connector.name}'` "
        f"({connector.description}). [The connector's page](../../connectors/{connector.name}.md) has examples. "
        + _GENERATED.format("the connector's descriptor")
        + "\n",
        table(
            ("the connector", ""),
            (
                ("can be a", _roles(connector.roles)),
                ("formats", ", ".join(_format_link(f) for f in connector.formats) or "none"),
                ("can be the table of a lookup join", "yes" if connector.dimension else "no"),
                ("metadata columns", _metadata(connector)),
            ),
        ),
        "## Options\n",
        _options(own) if own else "It has no options of its own.\n",
    ]
    if connector.formats:
        prefixes = [f"`{p}format`" for p in connector.format_prefixes]
        lines.append(
            f"The options of the format that {', '.join(prefixes)} name{'s' if len(prefixes) == 1 else ''} are on the "
            "format's page; what stands before `format` stands before their names, too.\n"
        )
    if connector.dimension:
        lines.append("Options of a table of a lookup join are [options of tables](../table-options.md).\n")
    return "\n".join(lines)


def _format(descriptor: FormatDescriptor) -> str:
    using = [c for c in REGISTERED.descriptors if any(f.name == descriptor.name for f in c.formats)]
    lines = [
        f"# Options of the format {descriptor.name}\n",
        f"After reading this page you know every option of `'format' = '{descriptor.name}'`. [Formats]"
        "(../../connectors/formats.md) describes them. "
        + _GENERATED.format("the format's descriptor")
        + "\n",
        table(
            ("the format", ""),
            (
                ("can be of a", _roles(descriptor.roles)),
                ("its records are", "changes of rows" if descriptor.changelog else "rows"),
                ("connectors", ", ".join(f"[{c.name}](../connectors/{c.name}.md)" for c in using)),
                ("metadata", ", ".join(f"`{n}`" for n in descriptor.metadata) or "none"),
            ),
        ),
        "## Options\n",
        _options(descriptor.options) if descriptor.options else "It has no options.\n",
    ]
    return "\n".join(lines)


def _tables() -> str:
    return "\n".join(
        [
            "# Options of tables\n",
            "After reading this page you know the options that tables have whatever their connector is. "
            + _GENERATED.format("their lists")
            + "\n",
            "## Tables that are read\n",
            "[Connectors](../connectors.md) describes them.\n",
            _options(SOURCE_OPTIONS),
            "## Tables of lookup joins\n",
            "[Lookup joins](../connectors/lookup.md) describes them.\n",
            _options(LOOKUP_OPTIONS),
        ]
    )


def _settings() -> str:
    rows = ((f"`{o.name}`", _kind(o), _default(o), _meaning(o)) for o in JOB_OPTIONS)
    return "\n".join(
        [
            "# Reference of settings\n",
            "After reading this page you know every setting that `SET` can have in a file. [Settings]"
            "(../running/settings.md) explains them. " + _GENERATED.format("the list of settings") + "\n",
            fenced("sql", "SET 'parallelism.default' = '4';"),
            table(("setting", "type", "default", "what it does"), rows),
            "## Refused\n",
            table(("setting of Flink", "instead"), ((f"`{name}`", why) for name, why in REFUSED.items())),
        ]
    )


def _options(options: Iterable[OptionDef]) -> str:
    return table(
        _HEADING,
        ((f"`{_name(o)}`", _kind(o), _default(o), _roles(o.roles), _meaning(o)) for o in options),
    )


def _name(option: OptionDef) -> str:
    return option.name.replace("#", "<column>")


def _kind(option: OptionDef) -> str:
    return ", ".join(f"`{choice}`" for choice in option.choices) or option.kind.value


def _default(option: OptionDef) -> str:
    if option.required:
        return "required"
    return "not set" if option.default is None else f"`{option.default}`" if option.default else "empty"


def _meaning(option: OptionDef) -> str:
    notes = [option.description.replace("*", "\\*").replace("<", "&lt;")]
    if option.minimum is not None and option.maximum is not None:
        notes.append(f"from {option.minimum:g} to {option.maximum:g}")
    if option.secret:
        notes.append("secret: shown nowhere")
    if option.only_files:
        notes.append("in files only")
    return "; ".join(notes)


def _roles(roles: Sequence[Role]) -> str:
    return ", ".join(role.value for role in roles)


def _format_link(format_: FormatDescriptor) -> str:
    return f"[{format_.name}](../formats/{format_.name}.md)"


def _metadata(connector: ConnectorDescriptor) -> str:
    named = [f"`{name}` {type_}" for name, type_ in connector.metadata.items()]
    if connector.format_metadata:
        named.append(f"`{connector.format_metadata}…`: the format's")
    return ", ".join(named) or "none"
