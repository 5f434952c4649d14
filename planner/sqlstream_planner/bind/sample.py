"""TABLESAMPLE and USING SAMPLE of a share: each row by itself, as WHERE RANDOM() < share says."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext

_HELP = "write WHERE RANDOM() < 0.1, or LIMIT n for some rows"


def sampled(context: BindContext, sample: exp.TableSample) -> exp.Expr:
    """The condition that chooses the rows of a sample. Raises DiagnosticError for a number of rows, and a seed."""
    share = sample.args.get("percent")
    if not isinstance(share, exp.Literal) or share.is_string:
        context.unsupported(sample, "a sample of a number of rows", help=_HELP)
    if sample.args.get("seed") is not None:
        context.unsupported(
            sample,
            "a sample with a seed",
            help="WHERE HASH(id) % 10 = 0 takes a tenth of the rows, and the same ones each time",
        )
    if not 0 <= float(share.name) <= 100:
        context.fail(share, "SQL064", f"a sample of {share.name} percent", help="it is from 0 to 100")
    random = exp.Anonymous(this="random", expressions=[])
    made = exp.LT(this=random, expression=exp.Literal.number(f"{float(share.name) / 100!r}"))
    for part in made.walk():
        part.meta.update(sample.meta)
    return made
