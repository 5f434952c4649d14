"""Windows over the slices of other windows: when an old state still has every slice that a new window needs.

A slice is dropped when the last window that it belongs to closes. A new window that is open at some watermark needs
its slices, so every slice must be kept by the old windows for at least as long as by the new ones, whatever the
watermark is: the last old window of each slice ends no earlier than its last new one. TUMBLE, HOP and CUMULATE all
repeat, so that one period shows it. `TUMBLE` to a multiple of its size never passes: the early panes of the coarse
window that is open are gone when the fine ones have closed, unless older windows (of a HOP, say) still hold them.
"""

from __future__ import annotations

import math

from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec

#: So many slices of a period are looked at; windows with more are not compared.
_MOST = 100_000


def slices_suffice(old: WindowSpec, new: WindowSpec) -> bool:
    """Whether at every watermark the slices that `old` keeps are all that the open windows of `new` need.

    >>> minute = 60_000_000
    >>> def hop(size, slide): return WindowSpec(WindowKind.HOP, size * minute, slide * minute)
    >>> def tumble(size): return WindowSpec(WindowKind.TUMBLE, size * minute, size * minute)
    >>> slices_suffice(hop(10, 5), tumble(10)), slices_suffice(hop(10, 5), tumble(5))
    (True, True)
    >>> slices_suffice(tumble(1), tumble(5)), slices_suffice(tumble(10), tumble(5))
    (False, False)
    >>> slices_suffice(hop(10, 2), hop(6, 2)), slices_suffice(hop(6, 2), hop(10, 2))
    (True, False)
    """
    if not old.shared_slices or not new.shared_slices:
        return False
    fine, coarse = old.slice_us, new.slice_us
    if coarse % fine or (new.offset_us - old.offset_us) % fine or new.slide_us > new.size_us:
        return False
    period = math.lcm(_period(old), _period(new))
    if period // fine > _MOST:
        return False
    offset = old.offset_us % fine
    for end in range(offset, offset + period, fine):
        last = _last_end(old, end)
        if last is None or last < (_last_end(new, coarse_end(new, end)) or last):
            return False
    return True


def coarse_end(window: WindowSpec, end: int) -> int:
    """The end of the slice of `window` that a finer slice, which ends at `end`, is a part of."""
    return end + (window.offset_us - end) % window.slice_us


def coarse_end_sql(window: WindowSpec, end: str) -> str:
    """The same as DuckDB SQL over the BIGINT expression `end`."""
    width = window.slice_us
    return f"({end} + ((({window.offset_us % width} - {end}) % {width}) + {width}) % {width})"


def _period(window: WindowSpec) -> int:
    return window.size_us if window.kind is WindowKind.CUMULATE else window.slide_us


def _last_end(window: WindowSpec, end: int) -> int | None:
    """The end of the last window that the slice which ends at `end` belongs to; None for one in a gap."""
    begin = end - window.slice_us
    period = _period(window)
    last = begin - (begin - window.offset_us) % period + window.size_us
    return last if last >= end else None
