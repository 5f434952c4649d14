"""Whether a run is most likely the first one of its pipeline, before its file is planned."""

from __future__ import annotations

from pathlib import Path

from sqlstream.project import Project

#: What in a file can say that its state is elsewhere, or is made by a template.
_ELSEWHERE = ("state.dir", "pipeline.name", "{%")


def is_first_run(file: Path, project: Project, state_dir: str | None) -> bool:
    """Whether there is no state directory yet where the file's would be, so that there is something to do for Spark.

    False where that can't be said without planning the file.
    """
    if state_dir is not None:
        return "://" not in state_dir and not Path(state_dir).exists()
    if project.state_dir is not None or (file.parent / ".sqlstream" / file.stem).exists():
        return False
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return not any(word in text for word in _ELSEWHERE)
