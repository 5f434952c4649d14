"""What the documentation of the code names is there, and the rooms hide nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ROOT / "sqlstream",
    ROOT / "planner" / "sqlstream_planner",
    ROOT / "operators" / "sqlstream_operators",
)


def there(path: str) -> bool:
    return any((base / path).exists() for base in (ROOT, *PACKAGES))


def test_the_glossary_names_files_that_are_there() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text().splitlines() if line.startswith("| ")]
    named = {path for row in rows for path in re.findall(r"`([a-z_/]+\.py)`", row.rsplit("|", 2)[1])}
    assert len(named) > 40
    assert sorted(path for path in named if not there(path)) == []


def test_the_glossary_explains_every_term_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]* \| `", (ROOT / "docs/glossary.md").read_text(), re.M)
    assert len(rows) == len(set(rows))


def test_the_architecture_names_files_and_folders_that_are_there() -> None:
    """A path may leave out the rooms that it is in where the text has said them."""
    text = (ROOT / "docs/architecture.md").read_text().replace("planner/…/", "")
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+(?:\.py)?)?|[a-z_]+/)`", text))
    assert named
    known = {
        f"/{p.relative_to(ROOT)}"
        for base in (*PACKAGES, ROOT / "tests", ROOT / "docs")
        for p in base.rglob("*")
    }
    ends = {one for path in known for one in (path, path.removesuffix(".py"))}
    missing = [p for p in named if not there(p) and not any(e.endswith(f"/{p.rstrip('/')}") for e in ends)]
    assert sorted(missing) == []


@pytest.mark.parametrize("package", PACKAGES[::2], ids=lambda path: path.name)
def test_the_init_file_of_a_room_says_what_the_room_is_and_exports_nothing(package: Path) -> None:
    for file in sorted(package.rglob("__init__.py")):
        tree = ast.parse(file.read_text())
        assert ast.get_docstring(tree), f"{file}: no docstring"
        names = [n for n in tree.body[1:] if not _is_version(n)]
        assert not names, f"{file}: import from the module that defines the name"


def _is_version(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__version__"]


def test_plans_can_be_read_where_nothing_is_installed() -> None:
    """Arrow, DuckDB, RocksDB, numpy and Spark are not even looked for."""
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'duckdb', 'rocksdict', 'numpy', 'pandas', 'pyspark', 'sqlglot'):\n"
        "    sys.modules[name] = None\n"
        "import pkgutil, importlib, sqlstream_operators.plan as plan\n"
        "for module in pkgutil.iter_modules(plan.__path__):\n"
        "    importlib.import_module(f'sqlstream_operators.plan.{module.name}')\n"
    )
    path = f"import sys; sys.path[:0] = {[str(p.parent) for p in PACKAGES]!r}\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def walks() -> str:
    """The two walks of the architecture: of an epoch, and of an edit."""
    text = (ROOT / "docs/architecture.md").read_text()
    return text[text.index("### The walk of an epoch") : text.index("### The rooms of `sqlstream/`")]


def test_every_file_that_the_walks_name_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)", walks()))
    assert len(named) > 25
    assert sorted(path for path in named if walked(path) is None) == []


def test_every_function_that_the_walks_name_is_in_its_file() -> None:
    named = set(re.findall(r"`([\w/]+\.py): ([\w.]+)`", walks()))
    assert len(named) > 20
    assert sorted(f"{path}: {name}" for path, name in named if name not in defined(path)) == []


def test_every_method_that_the_walks_name_is_somewhere_in_the_runtime() -> None:
    runtime = {p.relative_to(ROOT / "sqlstream") for p in (ROOT / "sqlstream").rglob("*.py")}
    known = {name for path in runtime for name in defined(str(path))}
    named = set(re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", walks()))
    assert len(named) > 10
    assert sorted(named - known) == []


def walked(path: str) -> Path | None:
    """The file that a walk names, which is below the runtime if nothing else is said."""
    bases = (ROOT / "sqlstream/runtime", ROOT / "sqlstream", ROOT / "planner")
    return next((base / path for base in bases if (base / path).is_file()), None)


def defined(path: str) -> set[str]:
    """The functions and classes of a file, and the methods of these as `Class.method`."""
    file = walked(path)
    assert file is not None, path
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_the_tests_of_the_planner_are_in_its_rooms() -> None:
    """`tests/planner/bind/` has those of `bind/`; `tests/identity` and `tests/edits` are rooms as well."""
    rooms = {p.name for p in (ROOT / "planner/sqlstream_planner").iterdir() if p.is_dir()}
    tested = {p.parent for p in (ROOT / "tests/planner").rglob("test_*.py")} - {ROOT / "tests/planner"}
    assert {folder.name for folder in tested} <= rooms
    loose = {p.name for p in (ROOT / "tests/planner").glob("*.py")}
    assert loose == {"test_error_goldens.py", "test_messages.py"}
