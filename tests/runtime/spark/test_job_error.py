"""What is told of a job that failed, by the text that Spark gives."""

from __future__ import annotations

import pytest

from sqlstream.runtime.spark.stages import job_error
from sqlstream_planner.diagnostics import DiagnosticError

SHUFFLE = (
    "An error occurred while calling o71.toArrow.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Lost task 0.0: java.io.IOException: No space left on device\n\tat java.base/sun.nio.ch.FileDispatcherImpl.write0"
)


@pytest.mark.parametrize("expected", ["No space left on device", "Disk quota exceeded"])
def test_a_full_scratch_folder_of_sparks(expected: str) -> None:
    error = job_error(SHUFFLE.replace("No space left on device", expected), 3)
    assert isinstance(error, DiagnosticError)
    (diagnostic,) = error.diagnostics
    assert (error.exit_code, diagnostic.code) == (5, "ENV005")
    assert diagnostic.message.endswith(f"the disk of Spark's scratch folder is full ({expected})")
    assert diagnostic.notes[0] == "in epoch 3; nothing of it was committed"
    assert "spark.local.dir" in diagnostic.notes[1]


WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1990, in main
    func, profiler, deserializer, serializer = read_udfs(pickleSer, infile, eval_type)
  File "<frozen importlib._bootstrap>", line 1007, in _find_and_load
{raised}
	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
"""


def test_a_package_that_executors_lack_is_named_with_their_python() -> None:
    raised = "ModuleNotFoundError: No module named 'pyarrow.compute'"
    error = job_error(WORKER.format(raised=raised), 1, python="/usr/bin/python3")
    assert isinstance(error, DiagnosticError)
    (diagnostic,) = error.diagnostics
    assert (error.exit_code, diagnostic.code) == (5, "ENV004")
    assert diagnostic.message == "Spark could not run epoch 1: the executors' Python has no package `pyarrow`"
    assert diagnostic.notes[0] == "it is /usr/bin/python3"
    assert "spark.pyspark.python" in str(diagnostic.help)


def test_what_a_worker_raised_is_told_by_its_last_line() -> None:
    raised = "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has 3.9"
    error = job_error(WORKER.format(raised=raised), 2, python="/usr/bin/python3")
    assert isinstance(error, DiagnosticError)
    (diagnostic,) = error.diagnostics
    assert diagnostic.message == f"Spark could not run epoch 2: {raised}"
    assert diagnostic.notes[0] == "the Python of the executors is /usr/bin/python3"


def test_without_a_trace_of_python_the_first_line_is_told() -> None:
    error = job_error("An error occurred\nat x.y.Z", 2, python="/usr/bin/python3")
    assert isinstance(error, DiagnosticError)
    assert error.diagnostics[0].message == "Spark could not run epoch 2: An error occurred"
    assert error.diagnostics[0].notes == ("nothing of the epoch was committed",)
