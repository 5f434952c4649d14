"""`python -m sqlstream`: the same as the command `sqlstream`."""

from sqlstream.cli.main import main

if __name__ == "__main__":
    main()
