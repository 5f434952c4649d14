"""Specs of the operators whose results change: group aggregate, distinct values, Top-N, deduplication, CDC, joins.

Changes are rows with a weight: WEIGHT_COLUMN (BIGINT, never NULL or 0) says how many times a row comes
(positive) or goes (negative), as in DBSP's Z-sets (Budiu et al., VLDB 2023). A relation without the column is
append-only: each row comes once. What an operator emits is consolidated: a row stands in it once, and not at
all if it came and went within the epoch; of joins see `JoinSpec`.

The `kind` of a spec stands for its class in stored plans: a fixed string, whatever the class is called.
`emits_changes` says whether what the operator emits has WEIGHT_COLUMN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import StateSchema

PICKS = ("first", "last", "all")
RANKS = ("row_number", "rank", "dense_rank")
JOINS = ("inner", "left", "right", "full", "semi", "anti")


class NoWatermark:
    """What a spec has whose operator no watermark moves."""

    __slots__ = ()

    @property
    def watermark_sources(self) -> tuple[str, ...]:
        """Nothing here depends on a watermark."""
        return ()


def _check_ranks(function: str, limit: int, offset: int) -> None:
    if function not in RANKS:
        raise ValueError(f"the rank function is one of {RANKS}, not {function!r}")
    if limit < 0 or offset < 0:
        raise ValueError("limit and offset are not negative")


@dataclass(frozen=True, slots=True)
class MultisetSpec:
    """Values that an aggregate needs one by one: a multiset for each group, with the count of each value.

    Input: the group's keys, `values`, WEIGHT_COLUMN; weights of one value add up. State table `name`,
    layout 'key' ('time' where groups expire): key = the group's keys, sub-key = `values`, value = `count`
    BIGINT, always positive: at 0 the row goes. A count that would fall below 0 (a delete of what never
    came) stays as it is, negative, until the missing insert comes; aggregates don't see such a value.

    `pick`: 'first' or 'last' reads only the first or last value of a group in the order of state (NULLs
    first), so that the work does not grow with the group; 'all' reads the group. `aggregates` are DuckDB
    aggregate expressions over the values read (columns `values` and `count`, a row a distinct value, in
    the order of state), one for each of `columns`. They are NULL where a group has no value here.
    """

    name: str
    values: Schema
    pick: str
    columns: Schema
    aggregates: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.pick not in PICKS:
            raise ValueError(f"pick is one of {PICKS}, not {self.pick!r}")
        if len(self.columns) != len(self.aggregates):
            raise ValueError("one aggregate for each column")


@dataclass(frozen=True, slots=True)
class ExpirySpec:
    """Groups that the watermark bounds: `column` is the key (TIMESTAMP) after which a group is complete.

    A group's state goes once `column` + `lateness_us` is behind the watermark; its result stays.
    """

    column: str
    watermark_sources: tuple[str, ...]
    tick_us: int
    lateness_us: int = 0


@dataclass(frozen=True, slots=True)
class GroupAggregateSpec:
    """Keeps a row for each group up to date and emits how it changes.

    Inputs: first any number of rows of `keys` and `accumulators` (partial aggregates of this epoch;
    several for one group; an accumulator that a row does not know is NULL), then one input for each of
    `multisets`. State: table `acc` (layout 'key': keys -> accumulators; with `expiry` layout 'time', TIME
    being the µs of its column), and one for each of `multisets`.

    `merge`: for each accumulator the DuckDB aggregate expression that merges several (by column name;
    deltas of sums and counts are added, a minimum over append-only input is the least). `presence` names
    the accumulator that counts the rows of a group: the group exists while it is positive, and its `acc`
    row goes when that and all others, which are sums then, are 0 or NULL (and the multisets are empty);
    None for append-only input, where a group never goes. `seed` is DuckDB SQL giving groups (keys and
    accumulators) that exist even without any row: the one group of a global aggregate, the grand total of
    ROLLUP. They belong to the shard of their keys, are emitted in the first epoch, and never go.

    `emit` is DuckDB SQL over relation `merged` (keys, merged accumulators, the `columns` of each of
    `multisets`) giving `output`, one row a group; it may also filter (HAVING is a filter of its own,
    above). The operator's output is `output` and WEIGHT_COLUMN: -1 with the row as it was, +1 with the
    row as it is, nothing where they are equal. `ttl_us`: groups that were not touched for so long (by the
    epochs' clock) are forgotten, silently.
    """

    kind: ClassVar[str] = "group_aggregate"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    keys: Schema
    accumulators: Schema
    merge: tuple[str, ...]
    emit: str
    output: Schema
    presence: str | None = None
    seed: str | None = None
    multisets: tuple[MultisetSpec, ...] = ()
    expiry: ExpirySpec | None = None
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        names = {column.name for column in self.accumulators}
        if len(self.merge) != len(self.accumulators):
            raise ValueError("one merge expression per accumulator")
        if self.presence is not None and self.presence not in names:
            raise ValueError(f"presence {self.presence!r} is no accumulator")
        if self.expiry is not None and self.expiry.column not in {column.name for column in self.keys}:
            raise ValueError(f"groups expire by a key, not by {self.expiry.column!r}")

    @property
    def watermark_sources(self) -> tuple[str, ...]:
        """The sources whose watermarks let groups expire."""
        return self.expiry.watermark_sources if self.expiry is not None else ()


@dataclass(frozen=True, slots=True)
class DistinctValuesSpec(NoWatermark):
    """Counts how often each value is in each group, and emits partial aggregates over the values that came or
    went.

    Serves all DISTINCT aggregates of a group aggregate over the same values; sharded by keys *and*
    values, so that one large group is shared out. Input: `keys`, `values`, and for each of `flags` a
    BIGINT: how many rows with this value came (less those that went) that pass this aggregate's FILTER.
    State: table `seen`, layout 'key': key = keys and values, value = the flags. With `retracting` False the
    input is append-only: a flag is kept as 0 or 1, and a value that was seen with all its flags is not
    written again.

    `emit` is DuckDB SQL over relation `changed` (keys, values, and for each flag BOOLEAN columns
    `<flag>.before` and `<flag>.after`; at least one pair differs) that gives `output`: the keys and
    accumulators of the group aggregate, NULL for those that are not about these values. Rows for one
    group may be several; the operator emits them as they are, without a weight.
    """

    kind: ClassVar[str] = "distinct_values"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    keys: Schema
    values: Schema
    flags: tuple[str, ...]
    retracting: bool
    emit: str
    output: Schema
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """One term of an ORDER BY over a column of the operator's input."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class TopNSpec(NoWatermark):
    """The rows of each partition whose rank is in (offset, offset + limit], kept up to date.

    Input: `columns` (the partition's among them), and WEIGHT_COLUMN if `retracting`. Rows that are equal
    in all of `order` are ranked by all `columns` in their order, ascending, NULLs first, so that the
    answer does not depend on arrival; RANK and DENSE_RANK see `order` alone. A row that came several
    times is ranked as several rows. State: table `rows`, layout 'key': key = partition columns; sub-key =
    `sort` BLOB (the order columns as order-preserving bytes, inverted where descending), `row` BLOB (a
    digest of the whole row); value = `count` BIGINT and the columns that are not in the partition. Over
    append-only input only rows that can still be in the answer are kept, over retracting input all.

    Output: `output`, which is `columns` in another order or fewer, and the rank if `rank` names it; and
    WEIGHT_COLUMN.
    """

    kind: ClassVar[str] = "top_n"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    function: str
    limit: int
    offset: int
    rank: str | None
    output: Schema
    retracting: bool
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        _check_ranks(self.function, self.limit, self.offset)


@dataclass(frozen=True, slots=True)
class DeduplicateSpec(NoWatermark):
    """The first row of each partition by `order` over append-only input: Top-N with N = 1, and one stored row
    a key.

    Input: `columns`. State: table `row`, layout 'key': key = `partition` columns, value = the others.
    Ties are broken as in `TopNSpec`. Output: `output` (columns, in another order or fewer) and
    WEIGHT_COLUMN.
    """

    kind: ClassVar[str] = "deduplicate"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    output: Schema
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class WindowTopNSpec:
    """The rows of each window and partition whose rank is in (offset, offset + limit], emitted when the
    window closes.

    Input: SLICE_COLUMN BIGINT (the window's end, µs) and `columns`; append-only. State: table `rows`,
    layout 'time' (the window's end): key = partition columns, sub-key = `sort` and `row` as in
    `TopNSpec`, value = `count` and the other columns. A window with end E is closed at watermark W iff E
    - tick <= W. Output: `output`, append-only.
    """

    kind: ClassVar[str] = "window_top_n"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    function: str
    limit: int
    offset: int
    rank: str | None
    output: Schema
    watermark_sources: tuple[str, ...]
    tick_us: int

    def __post_init__(self) -> None:
        _check_ranks(self.function, self.limit, self.offset)


@dataclass(frozen=True, slots=True)
class ChangelogNormalizeSpec(NoWatermark):
    """Makes a changelog with a primary key consistent: every key has one row or none, whatever the source
    says.

    Input, in arrival order: `columns` and KIND_COLUMN ('+I', '-U', '+U', '-D'). The last change of a key
    decides: after '+I' or '+U' its row is this one, after '-D' or '-U' it has none. Of a 'before' image
    only the key is trusted: a '-U' whose '+U' has another key takes the old key's row away; before a '+U'
    of its key it says nothing. State: table `row`, layout 'key': key = `keys`, value = the other columns.
    Output: `columns` and WEIGHT_COLUMN. Metrics: `unknown_deletes` (a '-D' of a key without a row) and
    `duplicate_inserts` (a '+I' of a key that has one).
    """

    kind: ClassVar[str] = "changelog_normalize"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    keys: tuple[str, ...]
    columns: Schema
    output: Schema
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class FirstRowSpec(NoWatermark):
    """The first row of each key that comes, of rows that only come; the others are dropped.

    Flink's Deduplicate with keep=FirstRow, by arrival; what ON CONFLICT DO NOTHING writes.

    Input, in arrival order: `columns`. State: table `row`, layout 'key': key = `keys`, no value. Output:
    `columns`, append-only. Metric: `dropped_rows`.
    """

    kind: ClassVar[str] = "first_row"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    keys: tuple[str, ...]
    columns: Schema
    output: Schema
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class SuppressUntilCloseSpec:
    """Holds a window's rows back until the watermark closes it; changes of windows that are closed pass.

    What Kafka Streams calls `suppress(untilWindowCloses)`, but late corrections still pass.

    Input: `columns` and, if `weighted`, WEIGHT_COLUMN; consolidated, and at any time one row for each of
    `keys` (columns, `end` among them: the TIMESTAMP of the window's end). State: table `held`, layout
    'time' (the window's end, µs): key = `keys`, value = the other columns. A window with end E is closed
    at watermark W iff E - tick <= W. Output: `output`, the same columns, with WEIGHT_COLUMN if
    rows can be taken back (`emits_changes`); they can't if the result is `final`: no change of a closed window
    comes. Ends are at `offset_us` (mod `slice_us`).
    """

    kind: ClassVar[str] = "suppress_until_close"

    state: StateSchema
    keys: tuple[str, ...]
    end: str
    columns: Schema
    weighted: bool
    output: Schema
    watermark_sources: tuple[str, ...]
    tick_us: int
    slice_us: int
    offset_us: int = 0
    final: bool = False

    def __post_init__(self) -> None:
        if self.end not in self.keys:
            raise ValueError(f"the window's end {self.end!r} is among the keys")

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be taken back."""
        return self.weighted and not self.final


@dataclass(frozen=True, slots=True)
class JoinSideSpec:
    """One side of a join: the columns that it has, and whether its rows can go.

    `keys` are, in the order of the join's keys, the columns that a key is as it stands; '' where the key is computed.
    `distinct`: no row is there twice (a key of the rows is known, and nothing is forgotten), so that a row that comes was
    not there. `counted`: a row is its keys and nothing else, so that those of a key come as one, with how many they are.
    Input: the keys, those of `columns` that no key is, and WEIGHT_COLUMN if `retracting` or `counted`.
    """

    columns: Schema
    keys: tuple[str, ...]
    retracting: bool
    distinct: bool = False
    counted: bool = False

    def __post_init__(self) -> None:
        if self.counted and self.stored:
            raise ValueError("rows that have columns beside their keys are not counted by them")

    @property
    def stored(self) -> Schema:
        """The columns that stand beside the keys in the input and in the state."""
        return tuple(column for column in self.columns if column.name not in self.keys)


def gives_alone(type_: str, side: str) -> bool:
    """Whether a join of a type gives rows of a side ('left' or 'right') that have no partner.

    >>> [gives_alone("anti", side) for side in ("left", "right")]
    [True, False]
    """
    return type_ in (side, "full") or (side == "left" and type_ == "anti")


def check_sides(type_: str, keys: Schema, left: JoinSideSpec, right: JoinSideSpec) -> None:
    """Raises ValueError where the sides of a join don't fit together."""
    if type_ not in JOINS:
        raise ValueError(f"a join is one of {JOINS}, not {type_!r}")
    for side in (left, right):
        if len(side.keys) != len(keys):
            raise ValueError("each side says of every key which column it is")
    names = [column.name for side in (left, right) for column in side.columns]
    if len(set(names)) != len(names):
        raise ValueError(f"two columns of a join have one name in {names}")


@dataclass(frozen=True, slots=True)
class JoinSpec(NoWatermark):
    """Pairs of rows of two relations whose keys are equal and for which a condition holds, kept up to date.

    Two inputs, `left` and `right`; the columns `keys` are called the same in both, all others have names of their own. A
    key that is NULL equals no other. `condition` is a DuckDB predicate over the columns of both sides (None: none more).
    `type`: an outer join ('left', 'right', 'full') gives a row of a side that is given whole, and has no partner, beside
    NULLs; 'semi' and 'anti' give the rows of the left that have a partner, or none.

    State: tables `left` and `right`, layout 'key': key = `keys`, sub-key = a BLOB (a digest of the row, or,
    where `only_come` says so, a name that no other row has), value = a BIGINT (how often it is there) and `stored` of
    the side. A count that would fall below 0 (a row that goes before it came) is kept, and counts as 0. Rows with a NULL
    among their keys are kept of a side that is given whole ('anti': of the left), so that the answer is in the state.

    Output: the columns of the left, and of the right but for 'semi' and 'anti'; with WEIGHT_COLUMN where rows can go. No
    two changes of it cancel out, but equal rows of a side that only come are not one there either.
    """

    kind: ClassVar[str] = "join"

    state: StateSchema
    type: str
    keys: Schema
    left: JoinSideSpec
    right: JoinSideSpec
    condition: str | None
    output: Schema
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        check_sides(self.type, self.keys, self.left, self.right)

    @property
    def columns(self) -> Schema:
        """The columns of both sides."""
        return (*self.left.columns, *self.right.columns)

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be taken back."""
        return self.type not in ("inner", "semi") or self.left.retracting or self.right.retracting

    def only_come(self, side: str) -> bool:
        """Whether rows of a side ('left' or 'right') are never taken back, so that none is looked for again.

        Of a key that only tells which rows of the left have a partner, once is enough: it is looked for.
        """
        rows = self.left if side == "left" else self.right
        tells = side == "right" and self.type in ("semi", "anti") and rows.counted
        return not rows.retracting and not tells


def column_of(columns: Schema, name: str) -> Column:
    """The column called `name`; KeyError if there is none."""
    for column in columns:
        if column.name == name:
            return column
    raise KeyError(name)
