"""`python -m docs.site FOLDER` builds the site into FOLDER, which is made anew."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.site.build import SiteError, build


def main() -> int:
    """Build the site; returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m docs.site FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    try:
        build(folder)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{folder}/index.html  {len(list(folder.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
