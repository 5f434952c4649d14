"""Rewrites of the plan, one per file, in groups, in the order in which they run."""

from __future__ import annotations

from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.check import Check
from sqlstream_planner.rules.decorrelate.decorrelate import decorrelate
from sqlstream_planner.rules.normalize.common_factors import common_factors
from sqlstream_planner.rules.normalize.merge_projections import merge_projections
from sqlstream_planner.rules.normalize.order_joins import order_joins
from sqlstream_planner.rules.normalize.push_filters import push_filters
from sqlstream_planner.rules.normalize.settle_ranks import settle_ranks
from sqlstream_planner.rules.normalize.settle_ties import settle_ties
from sqlstream_planner.rules.normalize.share_equal_subplans import share_all_but_pairs, share_equal_subplans
from sqlstream_planner.rules.prune.arrange_joins import arrange_joins
from sqlstream_planner.rules.prune.prune_columns import prune_columns
from sqlstream_planner.rules.prune.salted_joins import salted_joins
from sqlstream_planner.rules.rule import Roots, Rule
from sqlstream_planner.rules.streaming.aggregates import aggregates
from sqlstream_planner.rules.streaming.changelog_tables import changelog_tables
from sqlstream_planner.rules.streaming.conflicts import conflicts
from sqlstream_planner.rules.streaming.emit_on_close import emit_on_close
from sqlstream_planner.rules.streaming.epoch_values import epoch_values
from sqlstream_planner.rules.streaming.interval_joins import interval_joins
from sqlstream_planner.rules.streaming.node_rules import NodeRule, in_one_pass
from sqlstream_planner.rules.streaming.over import over
from sqlstream_planner.rules.streaming.regular_joins import regular_joins
from sqlstream_planner.rules.streaming.session_aggregates import session_aggregates
from sqlstream_planner.rules.streaming.session_windows import session_windows
from sqlstream_planner.rules.streaming.set_operations import set_operations
from sqlstream_planner.rules.streaming.share_slices import share_slices
from sqlstream_planner.rules.streaming.sink_changelogs import sink_changelogs
from sqlstream_planner.rules.streaming.temporal_joins import lookup_joins, temporal_joins
from sqlstream_planner.rules.streaming.top_n import top_n

#: What SQL leaves open is settled; the referee's SQL is written of what these give.
SETTLE: tuple[Rule, ...] = (settle_ties, settle_ranks)
#: Algebra to algebra.
NORMALIZE: tuple[Rule, ...] = (
    share_all_but_pairs,
    merge_projections,
    common_factors,
    push_filters,
    order_joins,
    share_equal_subplans,
)
#: Sub-queries to joins, whose conditions then go where they belong.
DECORRELATE: tuple[Rule, ...] = (decorrelate, merge_projections, push_filters)
#: What makes one of several ways to write a query, for what is compared with other files: without sharing.
ALIKE: tuple[Rule, ...] = (push_filters, *DECORRELATE)
#: Algebra to operators, node by node from the sources up.
OPERATORS: tuple[NodeRule, ...] = (
    changelog_tables,
    set_operations,
    interval_joins,
    regular_joins,
    temporal_joins,
    lookup_joins,
    session_windows,
    session_aggregates,
    aggregates,
    over,
    top_n,
    emit_on_close,
    conflicts,
)
STREAMING: tuple[Rule, ...] = (
    in_one_pass(*OPERATORS),
    sink_changelogs,
    share_slices,
)
#: Filters need no rule: a stateless chain over a scan is one fragment, and DuckDB pushes its WHERE into the
#: reader. The watermark is taken over all rows that were read, so a reader must not be handed a filter.
PRUNE: tuple[Rule, ...] = (merge_projections, prune_columns, salted_joins, arrange_joins)
#: Of what is left.
CHECK: tuple[Rule, ...] = (epoch_values,)

__all__ = [
    "ALIKE",
    "CHECK",
    "DECORRELATE",
    "NORMALIZE",
    "OPERATORS",
    "PRUNE",
    "RULES",
    "SETTLE",
    "STREAMING",
    "Rule",
    "optimize",
]

RULES: tuple[Rule, ...] = (*NORMALIZE, *DECORRELATE, *STREAMING, *PRUNE, *CHECK)


def optimize(roots: Roots, rules: tuple[Rule, ...] = RULES, facts: Facts | None = None) -> Roots:
    """Run the rules in order; `facts` are those of the plan, if others ask for them, too.

    Raises InternalError naming the rule that broke a node, a sink's columns or its key.
    """
    facts = Facts() if facts is None else facts
    check = Check(roots, facts)
    for rule in rules:
        roots = rule(roots, facts)
        check.after(rule.__name__, roots)
    return roots
