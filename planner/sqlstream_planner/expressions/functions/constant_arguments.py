"""Arguments that DuckDB must know before it reads a row: formats, options, names of groups, JSON paths.

One record a kind of argument: which functions take it where, and what is wrong with a literal. What decides a
type (the wildcards of a JSON path, the names of a pattern's groups) is read here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.expressions.functions.call import Call, NotTypableError
from sqlstream_planner.name_lists import names_in

Check = Callable[[Call, str], None]


@dataclass(frozen=True, slots=True)
class ConstantArgument:
    """Of the functions in `names` the argument at `index` (0-based) is a constant, called `what` in messages.

    `check` raises NotTypableError for a text that DuckDB would refuse, `null` says whether NULL may stand there,
    `most` is the greatest number.
    """

    names: frozenset[str]
    index: int
    what: str
    check: Check | None = None
    null: bool = True
    most: int | None = None


def _options(call: Call, text: str) -> None:
    known = "cilmnps" + ("g" if call.name == "regexp_replace" else "")
    wrong = [option for option in text if option not in known and not option.isspace()]
    if wrong:
        raise NotTypableError(f"`{wrong[0]}` is no option of {call.name}: there are {', '.join(known)}")


_ORDERS = frozenset({"ASC", "ASCENDING", "DESC", "DESCENDING", "DEFAULT", "ORDER_DEFAULT", "INVALID"})
_NULLS = frozenset(
    {"NULLS FIRST", "NULLS_FIRST", "NULLS LAST", "NULLS_LAST", "DEFAULT", "ORDER_DEFAULT", "INVALID"}
)


def _order(_: Call, text: str) -> None:
    if text.upper() not in _ORDERS:
        raise NotTypableError(f"'{text}' is no order: it is 'ASC' or 'DESC'")


def _nulls(_: Call, text: str) -> None:
    if text.upper() not in _NULLS:
        raise NotTypableError(f"'{text}' is no place for NULLs: it is 'NULLS FIRST' or 'NULLS LAST'")


_SPECIFIERS = frozenset("aAwdbBmyYHIpMSfnzZjUWcxXgGuV%")
_UNPADDED = frozenset("dmyHIMSj")


def specifiers(format_: str) -> list[str]:
    """The `%…` of a format of STRFTIME or STRPTIME. Raises NotTypableError for one that DuckDB does not know.

    >>> specifiers("%Y-%-m %%n")
    ['Y', 'm', '%']
    """
    if not format_:
        raise NotTypableError("the format of a time is empty")
    found = []
    for match in re.finditer("%(-?)(.?)", format_, re.DOTALL):
        unpadded, letter = match.groups()
        if letter not in (_UNPADDED if unpadded else _SPECIFIERS) or not letter:
            raise NotTypableError(f"'{match.group()}' in the format '{format_}' is no part of a time")
        found.append(letter)
    return found


def _group(call: Call, text: str) -> None:
    if call.types[2].type.kind is Kind.VARCHAR:
        _options(call, text)  # REGEXP_EXTRACT(text, pattern, 'i')


def _structure(_: Call, text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        raise NotTypableError(f"'{text}' is no structure of JSON") from None


def _format(_: Call, text: str) -> None:
    specifiers(text)


_IN_STRUCTURE = frozenset({"from_json", "from_json_strict", "json_transform", "json_transform_strict"})
_OPTIONS_THIRD = names_in(
    "regexp_full_match regexp_matches regexp_split_to_array str_split_regex string_split_regex"
)
_SORTS = names_in("list_sort array_sort list_grade_up array_grade_up grade_up")
_REVERSE_SORTS = names_in("list_reverse_sort array_reverse_sort")
STRPTIMES = frozenset({"strptime", "try_strptime"})

CONSTANT_ARGUMENTS = (
    ConstantArgument(frozenset(_OPTIONS_THIRD), 2, "the options", _options, null=False),
    ConstantArgument(
        frozenset({"regexp_replace", "regexp_extract", "regexp_extract_all"}),
        3,
        "the options",
        _options,
        null=False,
    ),
    ConstantArgument(frozenset({"regexp_extract"}), 2, "the group", _group, most=9),
    ConstantArgument(frozenset(_SORTS), 1, "the order", _order),
    ConstantArgument(frozenset(_SORTS), 2, "the place of NULLs", _nulls),
    ConstantArgument(frozenset(_REVERSE_SORTS), 1, "the place of NULLs", _nulls),
    ConstantArgument(STRPTIMES, 1, "the format", _format),
    ConstantArgument(_IN_STRUCTURE, 1, "the structure", _structure),
    ConstantArgument(frozenset({"array_to_string", "array_to_string_comma_default"}), 1, "the separator"),
    ConstantArgument(frozenset({"icu_sort_key"}), 1, "the collation"),
    ConstantArgument(frozenset({"index_key"}), 0, "the path"),
    ConstantArgument(frozenset({"switch"}), 1, "the map of cases", null=False),
)

#: These take one argument, whatever their signature says.
_ONE_ARGUMENT = frozenset({"to_json", "json_quote", "array_to_json", "row_to_json", "cardinality"})


def check_constants(call: Call) -> None:
    """Raise NotTypableError where DuckDB would refuse an argument once the query runs."""
    if call.name in _ONE_ARGUMENT and len(call.types) != 1:
        raise NotTypableError(f"`{call.name}` takes one argument")
    _check_kinds(call)
    if call.name == "switch" and not (len(call.nodes) > 1 and isinstance(call.nodes[1].unnest(), exp.ToMap)):
        raise NotTypableError("the cases of `switch` are written as a map: SWITCH(x, MAP {1: 'a', 2: 'b'})")
    for record in CONSTANT_ARGUMENTS:
        if call.name in record.names and record.index < len(call.types):
            _check(call, record)
    if call.name == "strftime":
        _check_strftime(call)
    if call.name in JSON_PATHS and len(call.types) > 1:
        has_wildcard(call, 1)


#: What the first argument of these is, whatever their signature says.
_KINDS = {
    "array_to_json": ("an array", frozenset({Kind.ARRAY})),
    "row_to_json": ("a struct", frozenset({Kind.STRUCT})),
    "cardinality": ("an array or a map", frozenset({Kind.ARRAY, Kind.MAP})),
}
#: How many arguments these take at the least, whatever their signature says.
_AT_LEAST = {"coalesce": 1, "map_concat": 2}


def _check_kinds(call: Call) -> None:
    what, kinds = _KINDS.get(call.name, ("", frozenset(Kind)))
    if call.types and call.types[0].type.kind not in kinds | {Kind.NULL, Kind.UNKNOWN}:
        raise NotTypableError(f"`{call.name}` takes {what}, this is {call.types[0].type}")
    least = _AT_LEAST.get(call.name, 0)
    if len(call.types) < least:
        raise NotTypableError(f"`{call.name}` takes at least {counted(least, 'argument')}")


def _check(call: Call, record: ConstantArgument) -> None:
    node = call.nodes[record.index].unnest()
    if not is_constant(node):
        raise NotTypableError(f"{record.what} of `{call.name}` must be a literal")
    if isinstance(node, exp.Null) and not record.null:
        raise NotTypableError(f"{record.what} of `{call.name}` must not be NULL")
    number = call.types[record.index].literal
    if record.most is not None and isinstance(number, int) and not 0 <= number <= record.most:
        raise NotTypableError(f"{record.what} of `{call.name}` is a number from 0 to {record.most}")
    if record.check is not None:
        for text in _texts(call, record.index, node):
            record.check(call, text)


def _check_strftime(call: Call) -> None:
    """STRFTIME takes its format before or behind the time; a text that is no format is the time."""
    formats = [n.unnest() for n, t in zip(call.nodes, call.types, strict=True) if t.type.kind is Kind.VARCHAR]
    if formats and all(t.literal is None for t in call.types if t.type.kind is Kind.VARCHAR):
        raise NotTypableError("the format of strftime must be a literal")
    if len(formats) == 1 and isinstance(formats[0], exp.Literal):
        specifiers(str(formats[0].this))


def _texts(call: Call, index: int, node: exp.Expr) -> list[str]:
    literal = call.types[index].literal
    if isinstance(literal, str):
        return [literal]
    parts = [part.unnest() for part in node.expressions] if isinstance(node, exp.Array) else []
    return [str(part.this) for part in parts if isinstance(part, exp.Literal) and part.is_string]


def is_constant(node: exp.Expr) -> bool:
    """Whether an expression reads no column, so that DuckDB knows its value before any row."""
    return next(node.find_all(exp.Column), None) is None


def literal_texts(call: Call, index: int) -> list[str] | None:
    """The text, or the texts of a list, that stand at `index`; None if it is anything but literals."""
    node = call.nodes[index].unnest()
    texts = _texts(call, index, node)
    wanted = len(node.expressions) if isinstance(node, exp.Array) else 1
    return texts if len(texts) == wanted else None


# ------------------------------------------------------------------------------------------- JSON paths

JSON_PATHS = frozenset(
    names_in(
        """
    json_extract json_extract_path json_extract_string json_extract_path_text json_array_length json_exists
    json_type json_keys json_value
    """
    )
)
_KEY = r'(?:"[^"]*"|\*+|[^."\[*][^.\[]*)'
_PATH = re.compile(rf'\$(?:\.{{1,2}}{_KEY}|\[(?:\*|-?\d+|#(?:-\d+)?|"[^"]*")\])*')
_QUOTED = re.compile(r'"(?!\*")[^"]*"')
_WILDCARD = re.compile(r'\.\.|\.\*|\."\*"|\[\*\]')


def has_wildcard(call: Call, index: int) -> bool:
    """Whether the JSON path at `index` finds several values. Raises NotTypableError if that can't be told.

    A path that a column gives has none: DuckDB refuses the row.
    """
    node = call.nodes[index].unnest()
    several = call.types[index].type.kind is Kind.ARRAY
    if isinstance(node, exp.Null) or not (several or call.types[index].type.kind is Kind.VARCHAR):
        return False
    if several and not is_constant(node):
        raise NotTypableError(f"the paths of `{call.name}` must be literals")
    texts = literal_texts(call, index)
    if texts is None:
        if is_constant(node):
            raise NotTypableError(f"the path of `{call.name}` must be a literal or a column")
        return False
    found = any(_finds_several(text) for text in texts)
    if found and several:
        raise NotTypableError("a list of JSON paths can have no wildcards")
    return found


def _finds_several(path: str) -> bool:
    if not path.startswith("$"):
        return path == "*"
    if _PATH.fullmatch(path) is None:
        raise NotTypableError(f"'{path}' is no JSON path")
    return _WILDCARD.search(_QUOTED.sub("", path)) is not None


# -------------------------------------------------------------------------------- groups of a pattern


def group_names(call: Call) -> list[str]:
    """The names that `regexp_extract(text, pattern, ['a', 'b'])` gives to the groups. Raises NotTypableError."""
    names, pattern = literal_texts(call, 2), call.types[1].literal
    if not names or not isinstance(pattern, str):
        raise NotTypableError(f"the pattern and the names of the groups in `{call.name}` must be literals")
    lowered = [name.lower() for name in names]
    if "" in lowered or len(set(lowered)) < len(lowered):
        raise NotTypableError(f"the names of the groups in `{call.name}` must differ and not be empty")
    groups = _groups(pattern)
    if groups is not None and groups < len(names):
        raise NotTypableError(f"the pattern has {groups} groups, there are {len(names)} names for them")
    return names


def _groups(pattern: str) -> int | None:
    try:
        return re.compile(pattern).groups
    except re.error:
        return None  # RE2 knows forms that Python does not


def unique_fields(names: Sequence[str]) -> None:
    """Raise NotTypableError if a struct would have a field twice."""
    lowered: set[str] = set()
    for name in names:
        if name.lower() in lowered:
            raise NotTypableError(f"the field `{name}` stands twice in one struct")
        lowered.add(name.lower())
