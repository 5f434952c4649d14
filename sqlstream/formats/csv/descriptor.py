"""What the format `csv` is, to the planner."""

from __future__ import annotations

from sqlstream.formats.shared_options import PLAIN_DECIMALS, accepted, tolerant
from sqlstream_planner.catalog.descriptor import ColumnLookup, FormatDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SOURCE = (Role.SOURCE,)


def _lookup(settings: Settings) -> ColumnLookup:
    """Without a header only positions and the number of fields count.

    Otherwise the first line may have the names or not, and which it is depends on all the names that are declared.
    """
    if settings.get("csv.header") is False:
        return ColumnLookup(by_name=False)
    return ColumnLookup(any_case=True)


CSV = FormatDescriptor(
    "csv",
    options=(
        OptionDef("csv.field-delimiter", ValueKind.CHARACTER, "between two fields", default=","),
        OptionDef(
            "csv.allow-comments",
            ValueKind.BOOLEAN,
            "skip lines that start with #",
            default="false",
            roles=(Role.SOURCE,),
        ),
        tolerant("csv"),
        OptionDef("csv.quote-character", ValueKind.CHARACTER, "around a field", default='"'),
        OptionDef(
            "csv.disable-quote-character", ValueKind.BOOLEAN, "no character quotes fields", default="false"
        ),
        OptionDef("csv.escape-character", ValueKind.CHARACTER, "before a character that is meant as it is"),
        OptionDef("csv.null-literal", ValueKind.STRING, "what stands for NULL"),
        OptionDef(
            "csv.array-element-delimiter",
            ValueKind.STRING,
            "between two elements of an array",
            default=";",
            refuse=lambda text: "no such option: arrays in CSV are written as [1, 2]",
        ),
        accepted("csv.write-bigdecimal-in-scientific-notation", ValueKind.BOOLEAN, PLAIN_DECIMALS, "true"),
        OptionDef(
            "csv.header",
            ValueKind.BOOLEAN,
            "whether the first line has the columns' names; found out if not set (ours)",
            only_files=True,
        ),
    ),
    lookup=_lookup,
)
