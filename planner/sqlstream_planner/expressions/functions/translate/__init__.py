"""Flink's and Spark's function names and forms, rewritten to DuckDB's.

What DuckDB has under the same name with the same meaning needs no entry. Where Flink and Spark agree and
DuckDB differs for the same call (LOG(x), CONCAT with NULL, DAYOFWEEK, REGEXP_REPLACE), theirs is meant; where
they disagree with each other, DuckDB's is. docs/functions.md is written from these tables.
"""

from __future__ import annotations

from sqlstream_planner.expressions.functions.translate.aggregates import AGGREGATES
from sqlstream_planner.expressions.functions.translate.collections_ import COLLECTIONS
from sqlstream_planner.expressions.functions.translate.entry import Translation
from sqlstream_planner.expressions.functions.translate.json_ import JSON_FUNCTIONS
from sqlstream_planner.expressions.functions.translate.math_ import MATH
from sqlstream_planner.expressions.functions.translate.rewrite import translate, translate_marked
from sqlstream_planner.expressions.functions.translate.strings import STRINGS
from sqlstream_planner.expressions.functions.translate.table import THEMES, TRANSLATIONS
from sqlstream_planner.expressions.functions.translate.times import TIMES

__all__ = [
    "AGGREGATES",
    "COLLECTIONS",
    "JSON_FUNCTIONS",
    "MATH",
    "STRINGS",
    "THEMES",
    "TIMES",
    "TRANSLATIONS",
    "Translation",
    "translate",
    "translate_marked",
]
