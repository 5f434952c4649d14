"""String functions of Flink and Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.expressions.functions.translate.entry import (
    FLINK,
    SPARK,
    Context,
    call,
    entry,
    literal_text,
    text,
)

_JAVA_REPLACEMENT = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


def _concat(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    if not arguments:
        raise context.refuse("CONCAT takes at least one argument", "write CONCAT(a, b)")
    if len(arguments) == 1:
        return exp.Cast(this=arguments[0], to=exp.DataType.build("VARCHAR"))
    joined = arguments[0]
    for argument in arguments[1:]:
        joined = exp.DPipe(this=joined, expression=argument, safe=True)
    return exp.Paren(this=joined)


def _elt(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    if len(arguments) < 2:
        raise context.refuse("ELT takes a number and what it chooses from", "write ELT(2, 'a', 'b')")
    chosen = [
        exp.If(this=exp.Literal.number(n), true=argument) for n, argument in enumerate(arguments[1:], start=1)
    ]
    return exp.Case(this=arguments[0], ifs=chosen)


def replacement(java: str) -> str:
    r"""A Java regex replacement (`$1`, backslash escapes) as RE2's (`\1`).

    >>> replacement("<$1>"), replacement(r"\$1")
    ('<\\1>', '$1')
    """

    def one(found: re.Match[str]) -> str:
        escaped, group = found.groups()
        return f"\\{group}" if group is not None else "\\\\" if escaped == "\\" else str(escaped)

    return _JAVA_REPLACEMENT.sub(one, java)


def _regexp_replace(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr:
    source, pattern, with_ = arguments
    written = literal_text(with_)
    if written is None:
        return call("regexp_replace", source, pattern, with_, text("g"))
    # A DuckDB group reference (`\1`) stays what it is: in Java it is the character 1, which nobody means.
    converted = written if re.search(r"\\\d", written) else replacement(written)
    return call("regexp_replace", source, pattern, text(converted), text("g"))


def _to_base64(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr | None:
    known = context.type(arguments[0])
    if known is not None and known.kind is Kind.BLOB:
        return None
    return call("to_base64", call("encode", arguments[0]))


def _encode(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return _charset("encode", arguments, context)


def _decode(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return _charset("decode", arguments, context)


def _charset(name: str, arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    charset = literal_text(arguments[1])
    if charset is None or charset.upper().replace("-", "") not in ("UTF8", "USASCII"):
        raise context.refuse(
            f"{name.upper()} knows UTF-8 only",
            f"write {name.upper()}(…, 'UTF-8'); TO_HEX, FROM_HEX, TO_BASE64 and FROM_BASE64 are of bytes and digits",
        )
    return call(name, arguments[0])


def _sha2(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    if not (isinstance(arguments[1], exp.Literal) and str(arguments[1].this) in ("256", "0")):
        raise context.refuse("SHA2 is there with 256 bits only", "write SHA2(…, 256)")
    return call("sha256", arguments[0])


_URL_PARTS = {
    "PROTOCOL": r"^([^:/?#]+):",
    "AUTHORITY": r"^[^:/?#]+://([^/?#]*)",
    "USERINFO": r"^[^:/?#]+://([^/?#@]*)@",
    "HOST": r"^[^:/?#]+://(?:[^/?#@]*@)?([^/?#:]*)",
    "PATH": r"^[^:/?#]+://[^/?#]*([^?#]*)",
    "FILE": r"^[^:/?#]+://[^/?#]*([^#]*)",
    "QUERY": r"^[^?#]*\?([^#]*)",
    "REF": r"#(.*)$",
}


def _parse_url(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    part = literal_text(arguments[1])
    if part is None or part not in _URL_PARTS:
        raise context.refuse("the part of PARSE_URL must be one of these literals: " + ", ".join(_URL_PARTS))
    return _group(arguments[0], text(_URL_PARTS[part]))


def _parse_url_query(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    key = literal_text(arguments[2])
    if literal_text(arguments[1]) != "QUERY" or key is None:
        raise context.refuse("PARSE_URL with a key needs the part 'QUERY' and a literal key")
    return _group(arguments[0], text(rf"^[^?#]*\?(?:[^#]*&)?{re.escape(key)}=([^&#]*)"))


def _group(source: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """The first group of `pattern`, NULL if it does not match."""
    matches = call("regexp_matches", source, pattern)
    extract = call("regexp_extract", source.copy(), pattern.copy(), exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=matches, true=extract)])


STRINGS = (
    entry("SPACE(count)", "repeat(' ', count)", "so many spaces", SPARK),
    entry(
        "SPLIT_INDEX(string, delimiter, index)",
        "CASE WHEN index >= 0 THEN string_split(string, delimiter)[index + 1] END",
        "the piece at a 0-based index, NULL if there is none",
        FLINK,
    ),
    entry(
        "SUBSTRING_INDEX(string, delimiter, number)",
        "CASE WHEN number > 0 THEN array_to_string(string_split(string, delimiter)[1:number], delimiter) "
        "WHEN number < 0 THEN array_to_string(string_split(string, delimiter)[number:], delimiter) "
        "WHEN number = 0 THEN '' END",
        "what stands before the n-th delimiter, counted from the end if `number` is negative",
        SPARK,
    ),
    entry(
        "CONCAT(...)",
        "a || b || …",
        "NULL if any argument is NULL (DuckDB's concat skips NULLs)",
        builder=_concat,
    ),
    entry(
        "ELT(...)",
        "CASE number WHEN 1 THEN a WHEN 2 THEN b … END",
        "the argument with that number, counted from 1 behind it; NULL if there is none",
        builder=_elt,
    ),
    entry(
        "INITCAP(string)",
        r"array_to_string(list_transform(regexp_extract_all(string, '[\p{L}\p{N}]+|[^\p{L}\p{N}]+'), "
        "lambda w: upper(w[1]) || lower(w[2:])), '')",
        "every word with a capital first letter, words being runs of letters and digits",
        FLINK,
    ),
    entry("LPAD(string, length)", "lpad(string, length, ' ')", "padded with spaces", SPARK),
    entry("RPAD(string, length)", "rpad(string, length, ' ')", "padded with spaces", SPARK),
    entry("LOCATE(part, string)", "strpos(string, part)", "1-based position of `part`, 0 if it is not there"),
    entry(
        "LOCATE(part, string, start)",
        "CASE WHEN start < 1 THEN 0 WHEN strpos(substring(string, start), part) = 0 THEN 0 "
        "ELSE strpos(substring(string, start), part) + start - 1 END",
        "1-based position of `part` at or after `start`, 0 if it is not there",
    ),
    entry(
        "POSITION(part, string)", "strpos(string, part)", "1-based position of `part`, 0 if it is not there"
    ),
    entry("REGEXP(string, regex)", "regexp_matches(string, regex)", "whether any part of `string` matches"),
    entry(
        "RLIKE(string, regex)", "regexp_matches(string, regex)", "whether any part of `string` matches", SPARK
    ),
    entry(
        "REGEXP_LIKE(string, regex)",
        "regexp_matches(string, regex)",
        "whether any part of `string` matches",
        SPARK,
    ),
    entry(
        "REGEXP_REPLACE(string, regex, replacement)",
        "regexp_replace(string, regex, replacement, 'g')",
        "every match replaced (DuckDB: the first); `$1` is a group",
        builder=_regexp_replace,
    ),
    entry(
        "REGEXP_COUNT(string, regex)", "len(regexp_extract_all(string, regex))", "how often `regex` matches"
    ),
    entry(
        "REGEXP_SUBSTR(string, regex)",
        "CASE WHEN regexp_matches(string, regex) THEN regexp_extract(string, regex) END",
        "the first match, NULL if there is none",
    ),
    entry("BTRIM(string)", "trim(string)", "without spaces at both ends"),
    entry("BTRIM(string, characters)", "trim(string, characters)", "without `characters` at both ends"),
    entry("STARTSWITH(string, start)", "starts_with(string, start)", "whether `string` begins with `start`"),
    entry("ENDSWITH(string, end_)", "ends_with(string, end_)", "whether `string` ends with `end_`"),
    entry("ENCODE(string, charset)", "encode(string)", "the bytes; UTF-8 only", builder=_encode),
    entry("DECODE(binary, charset)", "decode(binary)", "the string of UTF-8 bytes", builder=_decode),
    entry(
        "TO_BASE64(string)",
        "to_base64(encode(string))",
        "base64 of a string's UTF-8 bytes (of a BLOB as in DuckDB)",
        FLINK,
        _to_base64,
    ),
    entry("FROM_BASE64(string)", "decode(from_base64(string))", "the string that base64 stands for", FLINK),
    entry("UNBASE64(string)", "from_base64(string)", "the bytes that base64 stands for", SPARK),
    entry("SHA(string)", "sha1(string)", "SHA-1 in hexadecimal digits", SPARK),
    entry(
        "SHA2(string, bits)", "sha256(string)", "SHA-2 in hexadecimal digits; 256 bits only", builder=_sha2
    ),
    entry(
        "PARSE_URL(url, part)",
        "regexp_extract(url, …)",
        "a part of a URL, NULL if it has none",
        builder=_parse_url,
    ),
    entry(
        "PARSE_URL(url, part, key)",
        "regexp_extract(url, …)",
        "the value of a key of the query, NULL if it has none",
        builder=_parse_url_query,
    ),
    entry(
        "URL_ENCODE(string)",
        "replace(replace(replace(url_encode(string), '%20', '+'), '%2A', '*'), '~', '%7E')",
        "application/x-www-form-urlencoded",
    ),
    entry("URL_DECODE(string)", "url_decode(replace(string, '+', ' '))", "the reverse of URL_ENCODE"),
    entry(
        "IS_ALPHA(string)",
        r"coalesce(regexp_full_match(string, '\p{L}+'), FALSE)",
        "whether there are letters only; FALSE for NULL",
        FLINK,
    ),
    entry(
        "IS_DIGIT(string)",
        r"coalesce(regexp_full_match(string, '\p{Nd}+'), FALSE)",
        "whether there are digits only; FALSE for NULL",
        FLINK,
    ),
    entry(
        "IS_DECIMAL(string)",
        r"coalesce(regexp_full_match(string, '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?'), FALSE)",
        "whether it is a number; FALSE for NULL",
        FLINK,
    ),
    entry(
        "STR_TO_MAP(string)",
        "map_from_entries(list_transform(string_split(string, ','), "
        "lambda p: struct_pack(k := split_part(p, '=', 1), v := split_part(p, '=', 2))))",
        "`a=1,b=2` as a map of strings",
        FLINK,
    ),
    entry(
        "STR_TO_MAP(string, separator, equals)",
        "map_from_entries(list_transform(string_split(string, separator), "
        "lambda p: struct_pack(k := split_part(p, equals, 1), v := split_part(p, equals, 2))))",
        "pairs separated by `separator`, key and value by `equals`, as a map of strings",
    ),
)
