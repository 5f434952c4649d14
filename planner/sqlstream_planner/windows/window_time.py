"""Window arithmetic as DuckDB SQL over integer µs; times before 1970 are floored, not truncated."""

from __future__ import annotations

from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec


def floor_to(us: str, step: int, offset: int) -> str:
    """SQL for the largest multiple of `step` (shifted by `offset`) that is not after `us`.

    >>> floor_to("u", 10, 0)
    '(u - (((u) % 10) + 10) % 10)'
    """
    shifted = f"{us} - {offset}" if offset > 0 else f"{us} + {-offset}" if offset < 0 else us
    return f"({us} - ((({shifted}) % {step}) + {step}) % {step})"


def slice_end(window: WindowSpec, us: str) -> str:
    """SQL for the end (µs) of the shared slice that the time `us` falls into."""
    return f"{floor_to(us, window.slice_us, window.offset_us)} + {window.slice_us}"


def in_some_window(window: WindowSpec, us: str) -> str | None:
    """SQL that is true where `us` lies in any window, or None where that is always so (no gaps)."""
    if window.kind is not WindowKind.HOP or window.size_us >= window.slide_us:
        return None
    return f"{us} < {floor_to(us, window.slide_us, window.offset_us)} + {window.size_us}"


def first_end(window: WindowSpec, us: str) -> str:
    """SQL for the end (µs) of the earliest window that contains the time `us`; which there must be.

    >>> first_end(WindowSpec(WindowKind.TUMBLE, 10, 10), "u")
    '(u - (((u) % 10) + 10) % 10) + 10'
    """
    if window.kind is WindowKind.HOP:
        last = last_end(window, us)
        return f"{last} - ({last} - {us} - 1) // {window.slide_us} * {window.slide_us}"
    return f"{floor_to(us, window.slide_us, window.offset_us)} + {window.slide_us}"


def last_end(window: WindowSpec, us: str) -> str:
    """SQL for the end (µs) of the latest window that contains the time `us`; which there must be."""
    width = window.size_us if window.kind is WindowKind.CUMULATE else window.slide_us
    return f"{floor_to(us, width, window.offset_us)} + {window.size_us}"


def window_ends(window: WindowSpec, us: str) -> str:
    """SQL for the list (BIGINT[]) of the ends of all windows that contain the time `us`, earliest first."""
    if window.kind is WindowKind.CUMULATE:
        return f"generate_series({first_end(window, us)}, {last_end(window, us)}, {window.slide_us})"
    if window.kind is WindowKind.TUMBLE:
        return f"[{last_end(window, us)}]"
    return f"list_reverse(range({last_end(window, us)}, {us}, -{window.slide_us}))"


def start_of(window: WindowSpec, end: str) -> str:
    """SQL for the start (µs) of the window that ends at `end` (µs)."""
    if window.kind is WindowKind.CUMULATE:
        return floor_to(f"({end} - 1)", window.size_us, window.offset_us)
    return f"{end} - {window.size_us}"
