"""Long lists of names, written as text."""


def words(text: str) -> tuple[str, ...]:
    """The words of `text`.

    >>> words("a b")
    ('a', 'b')
    """
    return tuple(text.split())
