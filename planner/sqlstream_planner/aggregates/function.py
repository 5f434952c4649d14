"""What is known about an aggregate function: the record that everything else of the planner reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical import AggregateCall


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One stored field: `partial` over input rows, `merge` over stored fields (`{f}` is the field).

    `meaning` distinguishes two accumulators of the same arguments in fingerprints and never changes. `of_first`:
    it is over the call's first argument, whatever others there are. `counts`: over no rows it is 0, not NULL.
    """

    meaning: str
    type: SqlType
    partial: str
    merge: str
    of_first: bool = False
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Decomposition:
    """How one call is computed: its accumulators and the final expression over them (`{0}`, `{1}` …)."""

    accumulators: tuple[Accumulator, ...]
    final: str


@dataclass(frozen=True, slots=True)
class Multiset:
    """A call over its values one by one, each distinct value with how often it is there.

    `over_values` gives SQL over the columns of a value and `"count"`, by default the DuckDB function over a list
    of all values in ascending order. `pick` says how much is read: all of them, or the `first` or `last` alone.
    `paired`: a value is {by, x}, made of the second argument and the first, so that it is ordered by both.
    """

    over_values: Callable[[AggregateCall, tuple[str, ...]], str]
    pick: str = "all"
    paired: bool = False


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A call in DuckDB's own words, as the referee asks it; `of_result` makes the value of what it gives."""

    name: str
    arguments: tuple[str, ...]
    conditions: tuple[str, ...]
    order: str
    distinct: bool
    of_result: Callable[[str], str] = str

    @property
    def sql(self) -> str:
        """The call as SQL."""
        inside = ("DISTINCT " if self.distinct else "") + ", ".join(self.arguments)
        inside += f" ORDER BY {self.order}" if self.order else ""
        where = f" FILTER (WHERE {' AND '.join(self.conditions)})" if self.conditions else ""
        return self.of_result(f"{self.name}({inside}){where}")


@dataclass(frozen=True, slots=True)
class Spelling:
    """A call as Flink or Spark writes it (`LISTAGG(x)`), and the DuckDB call of the function that it is."""

    call: str
    template: str
    meaning: str
    system: str | None = None


@dataclass(frozen=True, slots=True)
class WithinGroup:
    """The function's name before WITHIN GROUP (ORDER BY x), where x is its first argument.

    `from_top` is the share that gives the value at (share) counted from the top, for ORDER BY x DESC.
    """

    name: str
    from_top: str = "1 - (share)"


@dataclass(frozen=True, slots=True)
class WrongConstant:
    """An argument that belongs to the call, and what is wrong with it."""

    argument: exp.Expr
    message: str
    help: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call may look like.

    - `of_rows`: how many arguments are values of each row; those behind them belong to the call and are
      constants. None: all are of rows, any number of them and of any type, and rows in which one is NULL don't
      count.
    - `at_most`: how many can be run where DuckDB takes more, with `instead`, which says what to write.
    - `ordered`: an ORDER BY inside the call is kept. `unordered_help` says what to write where one is refused;
      if there is none it is taken and says nothing. `orders_itself`: one that names the first
      argument alone is the function's own, and ascending it says nothing; with others it is the one of `in_order`.
    - `check` finds a constant that DuckDB would refuse only when it runs.
    - `instead_over`: what to write OVER a window, where the call can't stand.
    """

    of_rows: int | None = 1
    at_most: int | None = None
    instead: str = ""
    ordered: bool = False
    unordered_help: str | None = None
    orders_itself: bool = False
    check: Callable[[Sequence[exp.Expr]], WrongConstant | None] | None = None
    instead_over: str = ""


Append = Callable[[AggregateCall], Decomposition]
AnyOrder = Callable[[AggregateCall], Decomposition | None]
Weighted = Callable[[AggregateCall, str | None], Decomposition | None]
Batch = Callable[[AggregateCall, BatchCall], BatchCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """One aggregate function. `name` is DuckDB's in lower case: calls have it, and DuckDB knows its types.

    How it is written:

    - `also`: other names of DuckDB's. `spellings`: calls of Flink's and Spark's. `within_group`: its name before
      WITHIN GROUP. `by_time`: names that stand for it with the rows' event time as the second argument.
    - `arguments`: what a call may look like. `called`: the function that a call of this one is, once it is
      known to be right.
    - `with_count`: the function that a call with more than `at_most` arguments is: they say how many values are wanted.
      `in_order`: the one that a call by a name of `by_time` is, if it has an ORDER BY.
    - `best_first`: with an ORDER BY of its own, which says which of the best rows is taken, a call f(x, y) is
      FIRST(x ORDER BY y, …) with y ASC or DESC, over the rows that count.
    - `replaces`: functions that can't be run, with what to write instead.

    What it is:

    - `order_sensitive`: without an ORDER BY its value depends on the order in which rows arrive.
    - `keeps_nulls`: NULLs are values like others; else rows where the argument is NULL don't count.
    - `distinct_is_noop`: DISTINCT changes nothing.
    - `empty`: its value over no rows as SQL, where that is not NULL.
    - `extreme`: its value is its argument's "greatest" or "least": more rows never make it less, or greater.

    How it is computed:

    - `append_only`: accumulators over append-only rows, merged in the order in which they arrive. Every
      function has these.
    - `any_order`: the same where the value must not depend on that order (groups that are kept up to date);
      None, or giving None for a call, if its values are kept one by one.
    - `weighted`: linear accumulators, sums of something times a row's weight (SQL, None if every row comes
      once), which forget retracted rows; None, or giving None for a call, if its values are kept one by one.
    - `values`: over a multiset of its values, which any function can be computed from.
    - `over_changes`: a DISTINCT call as sums over the values that come (`{change}` 1) or go (-1), of the value
      `{x}`; None, or giving None for a call, if its distinct values are kept one by one.
    - `over_distinct`: a DISTINCT call over a table of distinct values with a flag for those that pass FILTER.

    The calls for DuckDB as the referee: `batch_in_order` over rows in the order of arrival, `batch_any_order` over
    rows in any order (both are given the call as it is written).

    `derived_from`: sets of functions whose accumulators together, over the same arguments and rows, hold this
    one's, whether rows go or not: its value can be had from their state without reading a row again. Beyond that
    every function can be derived from a multiset of its values of which all are read, and one with `pick` from
    one read at that end.
    """

    name: str
    also: tuple[str, ...] = ()
    spellings: tuple[Spelling, ...] = ()
    within_group: WithinGroup | None = None
    by_time: tuple[str, ...] = ()
    arguments: Arguments = Arguments()
    called: str | None = None
    with_count: str | None = None
    in_order: tuple[tuple[str, str], ...] = ()
    best_first: str = ""
    replaces: tuple[tuple[str, str], ...] = ()

    order_sensitive: bool = False
    keeps_nulls: bool = False
    distinct_is_noop: bool = False
    empty: str | None = None
    extreme: str = ""

    append_only: Append
    any_order: AnyOrder | None = None
    weighted: Weighted | None = None
    values: Multiset
    over_changes: AnyOrder | None = None
    over_distinct: Callable[[AggregateCall, tuple[str, ...], str | None], str]

    batch_in_order: Batch | None = None
    batch_any_order: Batch | None = None

    derived_from: tuple[frozenset[str], ...] = ()

    @property
    def takes_any_arguments(self) -> bool:
        """Whether all arguments are of rows, any number of them and of any type."""
        return self.arguments.of_rows is None

    def decomposed(
        self, call: AggregateCall, weight: str | None, *, retracting: bool
    ) -> Decomposition | None:
        """The call as accumulators that depend on the multiset of rows alone, or None if it needs its values.

        `weight` is the weight of a row as SQL, None if every row is inserted once; `retracting` says that rows are updating.
        """
        if retracting:
            return self.weighted(call, weight) if self.weighted is not None else None
        return self.any_order(call) if self.any_order is not None else None
