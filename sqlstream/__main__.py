"""The command `sqlstream`, also as `python -m sqlstream`."""

import signal


def main() -> None:
    """Run the command line. A Ctrl-C before it is imported ends the process without a word, as it does other programs."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where it is ignored, as in the background of a script
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sqlstream.cli.main import main as command

    signal.signal(signal.SIGINT, handler)
    command()


if __name__ == "__main__":
    main()
