"""A project: the folder that pipelines live in, and what its optional `sqlstream.toml` says about running them.

[vars]                   # for {{ var('…') }}
threshold = 10
[conf]                   # Spark settings
"spark.ui.enabled" = "true"
[profiles.prod]          # chosen with --profile prod; wins over the above
master = "spark://host:7077"
parallelism = 16
state-dir = "s3://bucket/state"
vars = { threshold = 100 }
conf = { "spark.executor.memory" = "4g" }
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream_operators.state.places import below
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.catalog.options import ValueKind
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, did_you_mean, suggestion

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned
    from sqlstream_planner.sql.rendered import RenderedSql

FILE = "sqlstream.toml"
PIPELINES = "pipelines"
#: The folder beside a pipeline in which states are by their names.
STATES = ".sqlstream"
#: How deep the folders of a project are that are looked at for what a file that was moved has left.
_DEPTH = 4
_TABLES = ("vars", "conf", "profiles")
_PROFILE_KEYS = ("master", "parallelism", "state-dir", "vars", "conf")


@dataclass(frozen=True, slots=True)
class Project:
    """What applies to the pipelines of a folder; `root` has `sqlstream.toml`, `pipelines/` or the file itself.

    `state_dir` is the folder (or URI) under which each pipeline gets a folder of its own.
    """

    root: Path
    variables: Mapping[str, Any] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    parallelism: int | None = None
    state_dir: str | None = None


def find_root(folder: Path) -> Path:
    """The project that a folder belongs to: the nearest one with `sqlstream.toml`, else the parent of the outermost
    `pipelines`, else the folder itself.
    """
    folder = folder.absolute()
    chain = [folder, *folder.parents]
    for candidate in chain:
        if (candidate / FILE).is_file():
            return candidate
    inside = [candidate for candidate in chain if candidate.name == PIPELINES]
    if inside:
        return inside[0].parent
    return folder


def load_project(folder: Path, profile: str | None = None) -> Project:
    """The project of a folder, with a profile applied. Raises DiagnosticError (PRJ…) if its file is wrong."""
    root = find_root(folder)
    file = root / FILE
    if not file.is_file():
        if profile is not None:
            raise DiagnosticError(
                Diagnostic(
                    "PRJ003",
                    f"there is no profile `{profile}`: {root} has no {FILE}",
                    help=f"write [profiles.{profile}] into {file}",
                ),
                exit_code=2,
            )
        return Project(root)
    document = _read(file)
    _known(document, _TABLES, file, "")
    chosen: Mapping[str, Any] = {}
    if profile is not None:
        profiles = _table(document, "profiles", file)
        if profile not in profiles:
            raise DiagnosticError(
                Diagnostic(
                    "PRJ003",
                    f"{file} has no profile `{profile}`",
                    notes=(f"it has {', '.join(profiles) or 'none'}",),
                    help=suggestion(profile, profiles),
                ),
                exit_code=2,
            )
        chosen = _table(profiles, profile, file)
        _known(chosen, _PROFILE_KEYS, file, f"profiles.{profile}.")
    parallelism = chosen.get("parallelism")
    if parallelism is not None and (
        not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1
    ):
        raise _wrong(file, f"parallelism of profile `{profile}` is a positive whole number")
    return Project(
        root,
        variables={**_table(document, "vars", file), **_table(chosen, "vars", file)},
        conf=_conf({**_table(document, "conf", file), **_table(chosen, "conf", file)}),
        master=_text(chosen, "master", file),
        parallelism=parallelism,
        state_dir=_text(chosen, "state-dir", file),
    )


def plan(
    path: Path,
    project: Project,
    variables: Mapping[str, str] | None = None,
    moved: Mapping[str, str] | None = None,
) -> Planned:
    """Plan a pipeline file with the project's variables, `variables` over them, and the environment.

    `moved` says which sources a state knows under another identity (`Catalog.moved`).
    Raises DiagnosticError with all that is wrong, PRJ001 (exit code 2) if there is no such file.
    """
    if not path.is_file():
        what = "does not exist"
        if path.is_dir():
            what = "is a folder"
        elif path.exists():
            what = "is no file that can be read twice, such as a pipe or a device"
        near = sorted(path.glob("*.sql"))[:5] if path.is_dir() else _similar(path)
        raise DiagnosticError(
            Diagnostic(
                "PRJ001",
                f"{path} {what}",
                notes=(f"there is {', '.join(str(p) for p in near)}",) if near else (),
                help="give the path of a pipeline, a .sql file",
            ),
            exit_code=2,
        )
    from sqlstream.planning import plan_file

    return plan_file(
        path,
        variables={**project.variables, **(variables or {})},
        env=os.environ,
        search_path=_macros(project),
        moved=moved or {},
    )


def rendered(path: Path, project: Project, variables: Mapping[str, str]) -> RenderedSql:
    """The text of a pipeline file after templating, as `plan` has it. Raises DiagnosticError if it can't be rendered."""
    from sqlstream_planner.sql.parse import rendered_file

    return rendered_file(
        path,
        variables={**project.variables, **variables},
        env=os.environ,
        search_path=_macros(project),
    )


def _macros(project: Project) -> tuple[Path, ...]:
    return (project.root / "macros", project.root)


def pipeline_name(planned: Planned, path: Path) -> str:
    """`SET 'pipeline.name'`, else the file's path in its project, without `pipelines/` and `.sql`."""
    return planned.physical.options.name or path_in_project(path)


def path_in_project(path: Path) -> str:
    """The path of a pipeline's file in its project, without `pipelines/` and `.sql`."""
    file = path.parent.resolve() / path.name
    inside = file.relative_to(find_root(file.parent)).with_suffix("")
    parts = inside.parts[1:] if inside.parts[0] == PIPELINES else inside.parts
    return "/".join(parts)


def state_directory(planned: Planned, path: Path, project: Project, given: str | None) -> str:
    """Where a pipeline keeps its state, a path or a URI.

    `--state-dir` (from the working directory), else `SET 'state.dir'` (from the pipeline's folder), else
    the profile's `state-dir`/<name> (from the project), else `.sqlstream/<name>` beside the file, where the name of the
    file is enough.
    """
    if given is not None:
        return given
    if planned.physical.options.state_dir is not None:
        return _under(path.parent, planned.physical.options.state_dir)
    if project.state_dir is not None:
        name = planned.physical.options.name
        parts = path_in_project(path).split("/") if name is None else [name]
        return below(_under(project.root, project.state_dir), "/".join(map(folder_of, parts)))
    return str(path.parent / STATES / folder_of(planned.physical.options.name or path.stem))


def folder_of(name: str) -> str:
    """A name as that of a folder.

    >>> folder_of("../other name")
    '-other-name'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".") or "pipeline"


def check_paths(planned: Planned, folder: Path) -> None:
    """Raise DiagnosticError (PRJ005) for input that is not under the pipeline's folder but under the working directory.

    Relative paths are relative to the folder of the file, so that a pipeline runs the same from everywhere; who
    expects otherwise sees an error before Spark starts.
    """
    for source in planned.physical.sources:
        if source.connector == ONE_ROW:
            continue
        options = planned.catalog.connectors[source.connector].options
        path = next((source.options.get(o.name, "") for o in options if o.kind is ValueKind.PATH), "")
        if not path or "://" in path or Path(path).is_absolute():
            continue
        fixed = re.split(r"[*?\[{]", path)[0]
        start = fixed if fixed == path else fixed.rpartition("/")[0] or "."
        if not (folder / start).exists() and Path(start).exists():
            there = os.path.relpath(path, folder)
            raise DiagnosticError(
                Diagnostic(
                    "PRJ005",
                    f"source `{source.name}`: there is no '{path}' in {folder.absolute()}",
                    notes=("relative paths are relative to the folder of the pipeline's file",),
                    help=f"write 'path' = '{there}'",
                )
            )


def pipeline_files(root: Path) -> list[Path]:
    """The pipelines of a project: `.sql` files under `pipelines/`, but none in a folder `macros` and none whose
    name, or folder's name, starts with `_` or `.`.
    """
    base = root / PIPELINES
    found = []
    for file in base.rglob("*.sql"):
        parts = file.relative_to(base).parts
        if not any(part.startswith(("_", ".")) for part in parts) and "macros" not in parts[:-1]:
            found.append(file)
    return sorted(found)


def state_folders(file: Path) -> Iterator[Path]:
    """Where a pipeline without a `state-dir` may have its state by its name, or had it before its file was moved.

    The folder beside the file comes first; then those of its project, or of the folders next to it, if it has none.
    """
    yield file.parent / STATES
    beside = file.parent.resolve()
    root = find_root(beside)
    around = [beside.parent, *_folders(beside, 1)] if root == beside else [root, *_folders(root, _DEPTH)]
    for folder in around:
        if folder != beside and _is_dir(folder / STATES):
            yield folder / STATES


def _is_dir(folder: Path) -> bool:
    """Whether there is a folder; one that can't be looked at is none of ours."""
    try:
        return folder.is_dir()
    except OSError:
        return False


def folder_of_state(project: Project, base: Path, name: str) -> Path:
    """Where the file was that has this name among the states of a folder, unless it has its name by a setting."""
    if project.state_dir is None:
        return base.parent
    inside = project.root / PIPELINES
    return (inside if inside.is_dir() else project.root).joinpath(*name.split("/")[:-1])


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """The folders of a folder, `depth` levels of them, without those that are hidden or can't be listed."""
    try:
        inner = sorted(one for one in folder.iterdir() if one.name[0] != "." and one.is_dir())
    except OSError:
        return
    for one in inner:
        yield one
        if depth > 1:
            yield from _folders(one, depth - 1)


def states_by_name(file: Path, project: Project, base: Path) -> Iterator[Path]:
    """Where the other pipelines, of the project or beside a folder of states, have their states by their names."""
    if project.state_dir is None:
        others = {one: one.stem for one in base.parent.glob("*.sql")}
    else:
        others = {
            one: path_in_project(one) for one in (*pipeline_files(project.root), *_beside(file, project))
        }
    for one, name in others.items():
        yield base.absolute().joinpath(*map(folder_of, name.split("/")))
        if one.name == file.name and one.samefile(file):
            continue
        text = one.read_text(encoding="utf-8", errors="replace")
        for given in re.findall(r"'pipeline\.name'\s*=\s*'([^']*)'", text):
            yield base.absolute() / folder_of(given)


def _beside(file: Path, project: Project) -> Iterator[Path]:
    """Pipelines of a project that keeps them elsewhere than in `pipelines/`."""
    if not (project.root / PIPELINES).is_dir():
        for folder in (project.root, *_folders(project.root, _DEPTH)):
            yield from folder.glob("*.sql")
    yield from file.parent.glob("*.sql")


def parse_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """`k=v` pairs of the command line. Raises DiagnosticError (PRJ004, exit code 2).

    >>> parse_pairs(["a=1", "b=x=y"], "--var")
    {'a': '1', 'b': 'x=y'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            instead = f"{pair}=…" if pair.strip() and not equals else f"NAME={value or '…'}"
            raise DiagnosticError(
                Diagnostic("PRJ004", f"{option} {pair}: not NAME=VALUE", help=f"write {option} {instead}"),
                exit_code=2,
            )
        found[name.strip()] = value
    return found


def _under(folder: Path, place: str) -> str:
    return place if "://" in place else str(folder / place)


def _similar(path: Path) -> list[Path]:
    try:
        names = {p.name: p for p in path.absolute().parent.glob("*.sql")}
    except OSError:
        return []
    near = did_you_mean(path.name, names)
    return [path.parent / near] if near else []


def _read(file: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(file, f"can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        span = Span(str(file), int(place[1]), int(place[2])) if place else Span(str(file), 1, 1)
        raise DiagnosticError(Diagnostic("PRJ002", f"not TOML: {error}", span)) from None


def _known(table: Mapping[str, Any], names: Sequence[str], file: Path, prefix: str) -> None:
    for key in table:
        if key not in names:
            near = did_you_mean(key, names)
            raise _wrong(
                file,
                f"unknown key `{prefix}{key}`",
                f"did you mean `{prefix}{near}`?" if near else f"there are {', '.join(names)}",
            )


def _table(document: Mapping[str, Any], key: str, file: Path) -> Mapping[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, Mapping):
        raise _wrong(file, f"`{key}` is a table: [{key}] and lines of NAME = VALUE")
    return value


def _conf(values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's settings, with nested tables (an unquoted `spark.x = …`) put together again."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.update({f"{key}.{inner}": text for inner, text in _conf(value).items()})
        else:
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _text(table: Mapping[str, Any], key: str, file: Path) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(file, f"`{key}` is text, in quotes")
    return value


def _wrong(file: Path, message: str, help: str | None = None) -> DiagnosticError:
    return DiagnosticError(Diagnostic("PRJ002", f"{file}: {message}", help=help), exit_code=2)
