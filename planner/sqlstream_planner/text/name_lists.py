"""Long lists of names, written as text."""


def names_in(text: str) -> tuple[str, ...]:
    """The names in `text`, which are apart by white space.

    >>> names_in("a b")
    ('a', 'b')
    """
    return tuple(text.split())
