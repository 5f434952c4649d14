"""Files that begin as no text does, where a table says that they are text: read as lines, they would give wrong rows."""

from __future__ import annotations

import re

#: What a file begins with -> what it is, and what to do. A short file of text may begin with letters like these, so
#: where they are letters, more follows that no text has.
_SIGNATURES: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), what, instead)
    for pattern, what, instead in (
        (rb"\x1f\x8b", "compressed with gzip", "give it a name that ends with .gz"),
        (rb"\x28\xb5\x2f\xfd", "compressed with zstd", "give it a name that ends with .zst"),
        (rb"BZh[1-9]1AY&SY", "compressed with bzip2", "give it a name that ends with .bz2"),
        (rb"\x04\x22\x4d\x18", "compressed with lz4", "give it a name that ends with .lz4"),
        (rb"\xfd7zXZ\x00", "compressed with xz", "compress it with gzip, zstd, bzip2 or lz4 instead"),
        (rb"PK\x03\x04", "a zip archive", "put the files that are in it there instead"),
        (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", "put the files that are in it there instead"),
        (
            rb"PAR1[\x00-\x08\x0b\x0c\x0e-\x1f]",
            "a Parquet file",
            "declare the table with 'format' = 'parquet'",
        ),
        (rb"Obj\x01", "an Avro file", "declare the table with 'format' = 'avro'"),
        (rb"ORC[\x00-\x08\x0b\x0c\x0e-\x1f]", "an ORC file", "declare the table with 'format' = 'orc'"),
        (rb"\xff\xfe|\xfe\xff", "text in UTF-16", "convert it to UTF-8, as with `iconv -f UTF-16 -t UTF-8`"),
    )
)
#: How many bytes are looked at.
HEAD = 16


def not_text(head: bytes) -> tuple[str, str] | None:
    r"""What a file is that begins with `head`, and what to do with it; None if it may be text.

    >>> not_text(b"\x1f\x8b\x08\x00")
    ('compressed with gzip', 'give it a name that ends with .gz')
    >>> not_text(b"BZh9,1\n")
    """
    return next(((what, instead) for pattern, what, instead in _SIGNATURES if pattern.match(head)), None)
