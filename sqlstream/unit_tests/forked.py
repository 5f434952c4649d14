"""What the process imports that those which run tests are forked from.

Ctrl-C, which every process of a terminal is sent, ends that one, and those, without a word.
"""

import signal
import sys

if sys.argv[:1] == ["-c"]:  # so `multiprocessing` starts it; elsewhere signals are others' business
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sqlstream.unit_tests.worker  # noqa: F401
