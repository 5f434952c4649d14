"""All translations, by theme and by name."""

from __future__ import annotations

from sqlstream_planner.expressions.functions.translate.aggregates import AGGREGATES
from sqlstream_planner.expressions.functions.translate.collections_ import COLLECTIONS
from sqlstream_planner.expressions.functions.translate.entry import Translation
from sqlstream_planner.expressions.functions.translate.json_ import JSON_FUNCTIONS
from sqlstream_planner.expressions.functions.translate.math_ import MATH
from sqlstream_planner.expressions.functions.translate.strings import STRINGS
from sqlstream_planner.expressions.functions.translate.times import TIMES

THEMES: tuple[tuple[str, tuple[Translation, ...]], ...] = (
    ("Strings", STRINGS),
    ("Dates and times", TIMES),
    ("Arrays and maps", COLLECTIONS),
    ("JSON", JSON_FUNCTIONS),
    ("Numbers and conditions", MATH),
    ("Aggregates", AGGREGATES),
)
TRANSLATIONS: tuple[Translation, ...] = tuple(t for _, theme in THEMES for t in theme)
