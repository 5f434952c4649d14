"""What is told of a job that failed, by the text that Spark gives."""

from __future__ import annotations

import pytest

from sqlstream.runtime.spark.stages import told
from sqlstream_planner.diagnostics import DiagnosticError

SHUFFLE = (
    "An error occurred while calling o71.toArrow.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Lost task 0.0: java.io.IOException: No space left on device\n\tat java.base/sun.nio.ch.FileDispatcherImpl.write0"
)


@pytest.mark.parametrize("said", ["No space left on device", "Disk quota exceeded"])
def test_a_full_scratch_folder_of_sparks(said: str) -> None:
    error = told(SHUFFLE.replace("No space left on device", said), 3)
    assert isinstance(error, DiagnosticError)
    (diagnostic,) = error.diagnostics
    assert (error.exit_code, diagnostic.code) == (5, "ENV005")
    assert diagnostic.message.endswith(f"the disk of Spark's scratch folder is full ({said})")
    assert diagnostic.notes[0] == "in epoch 3; nothing of it was committed"
    assert "spark.local.dir" in diagnostic.notes[1]
