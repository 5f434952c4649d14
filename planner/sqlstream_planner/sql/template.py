"""Jinja in SQL files: sandboxed, with a map from the rendered text back to the user's own lines.

The text that is parsed is what Jinja renders from the files as they are. To map it back, the files are
rendered a second time with invisible marks that carry their place; if the marked rendering without its
marks is another text (a template that measures or compares its own output), the map is made by comparing
lines instead, so a mark can never change what runs.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, did_you_mean
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.sql.template_bounds import (
    MAX_OUTPUT,
    bounded_filter,
)
from sqlstream_planner.sql.template_marks import marked_source, segments_of, unmarked
from sqlstream_planner.sql.template_sandbox import sandbox

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

MAX_ITERATIONS = 100_000
"""How many numbers all `range()` calls of one rendering may give together."""
MAX_FILES = 200
"""How many loads of included and imported files one rendering may do."""
MAX_CALLS = 300_000
"""How many calls of macros and functions one rendering may do."""
MAX_DEPTH = 1_000
"""How deep macros may call each other. Planning's stack would let them go on until a minute is over."""

#: Braces that no template can mean: `LIKE '{%'`, format('{{}}'), '{{' where nothing is closed behind it.
_TEXT = re.compile(r"\{\{\{\}\}\}|\{\{\}\}|\{%(?=')|\{\{(?='(?![\s\S]*\}\}))|\{#(?='(?![\s\S]*#\}))")
#: What stands for them while Jinja reads the file, of the same length.
_SHIELDED = {ord("{"): "\U0010f830", ord("}"): "\U0010f831", ord("%"): "\U0010f832", ord("#"): "\U0010f833"}
_PLAIN = {ord(shield): chr(plain) for plain, shield in _SHIELDED.items()}
#: `{{` behind a quote that nothing before it in the line closes.
_IN_TEXT = re.compile(r"[^']*'(?:[^']*'[^']*')*[^']*\{\{")
_AS_TEXT = "as text, write {{ '{{' }} for `{{`; or {% raw %} before all of it and {% endraw %} behind"
#: What a template writes to have braces in the text: `{{ '{{' }}`.
_BRACES = re.compile(r"[{}%#\s]*")
_HAS_JINJA = re.compile(r"\{\{|\{%|\{#")
_MISSING: Any = object()


def render_template(
    text: str,
    file: str,
    *,
    variables: Mapping[str, Any] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    search_path: Sequence[Path] = (),
) -> RenderedSql:
    """Render `text`, the content of `file`, with `var()` and `env_var()`, includes, imports and macros.

    `variables` are what `--var` and the project set. Templates are found beside the file, in the `macros`
    folder there, and in `search_path`; nothing outside of those can be read. Raises DiagnosticError (TPL…).

    >>> render_template("SELECT {{ var('x', 1) }}", "q.sql").text
    'SELECT 1'
    """
    if not _HAS_JINJA.search(text):
        return RenderedSql.plain(text, file)
    folder = Path(file).parent
    found = {root.resolve(): root for root in reversed([folder, folder / "macros", *search_path])}
    roots = tuple(reversed(found.values()))
    plain = _Rendering(text, file, roots, variables, env, marked=False)
    output = plain.run().translate(_PLAIN)
    marked_output = _Rendering(text, file, roots, variables, env, marked=True).run().translate(_PLAIN)
    sources = plain.sources
    segments = segments_of(marked_output, output, list(sources), sources, file)
    return RenderedSql(output, file, segments, MappingProxyType(dict(sources)))


#: Names of dbt's templates, and what to write for each.
_OF_DBT = {
    "ref": "write the table's or view's own name: CREATE TEMPORARY VIEW name AS SELECT … above makes one in this file",
    "source": "write the table's own name, and declare it above: CREATE TABLE name (…) WITH ('connector' = …)",
    "config": "write options where they belong: SET 'name' = 'value' for the run, WITH ('name' = 'value') for a table",
    "is_incremental": "leave it out: a run always reads only what is new, and keeps the state of the query",
    "this": "write the name of the table that INSERT INTO writes; a query can't read what it writes",
    "target": "write {{ var('name') }}, and give it in [vars] or in a profile of sqlstream.toml",
    "adapter": "write SQL: there is no database while a file is planned",
    "model": "leave it out: a pipeline has a name by SET 'pipeline.name'",
    "run_query": "write SQL: nothing is run while a file is planned",
    "statement": "write SQL: nothing is run while a file is planned",
}


class _RefusedError(Exception):
    """A template reads something that it may not have or that does not exist."""

    def __init__(self, code: str, message: str, *, help: str | None = None, word: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help
        self.word = word


class _Rendering:
    """One rendering of a file, with or without marks."""

    def __init__(
        self,
        text: str,
        file: str,
        roots: Sequence[Path],
        variables: Mapping[str, Any],
        env: Mapping[str, str],
        *,
        marked: bool,
    ) -> None:
        self.file = file
        self.roots = roots
        self.variables = variables
        self.env = env
        self.marked = marked
        # Jinja counts lines with \n only and rewrites the other kinds to it.
        self.sources: dict[str, str] = {file: _newlines(text)}
        self.iterations = 0
        self.loads = 0
        self.calls = 0
        self.depth = 0
        self.jinja = self._environment()

    def run(self) -> str:
        """The rendered text."""
        import jinja2

        parts: list[str] = []
        size = 0
        try:
            for part in self.jinja.get_template(self.file).generate():
                parts.append(part)
                size += len(part)
                if size > MAX_OUTPUT:
                    raise _RefusedError("TPL007", f"the template writes more than {MAX_OUTPUT:,} characters")
        except _RefusedError as error:
            self._fail(error.code, error.message, error, help=error.help, word=error.word)
        except jinja2.TemplateSyntaxError as error:
            where = error.filename if error.filename in self.sources else self.file
            message = error.message or "the template does not parse"
            # What Jinja says where no name follows, as in LIKE '{%'.
            as_text = message == "tag name expected" or message.startswith("unexpected char")
            help_ = "as text, `{%` is written {{ '{%' }}" if as_text else None
            line = self.sources[str(where)].split("\n")[max(error.lineno, 1) - 1 :][:1]
            if help_ is None and line and _IN_TEXT.match(line[0]):
                help_ = _AS_TEXT
            self._report("TPL001", message, str(where), error.lineno, None, help_)
        except jinja2.TemplateNotFound as error:
            self._missing(error)
        except OverflowError as error:
            self._fail("TPL007", str(error), error)
        except jinja2.exceptions.SecurityError as error:
            self._fail("TPL004", str(error), error, help="templates have no access to Python's inside")
        except jinja2.UndefinedError as error:
            self._undefined(error)
        except RecursionError as error:
            self._fail("TPL007", "the template includes or calls itself without an end", error)
        except (jinja2.TemplateError, ArithmeticError, AttributeError) as error:
            self._fail("TPL008", str(error) or type(error).__name__, error)
        except (LookupError, TypeError, ValueError) as error:
            self._fail("TPL008", str(error) or type(error).__name__, error)
        return "".join(parts)

    @contextmanager
    def called(self) -> Iterator[None]:
        """Count a call, and how deep it is."""
        self.calls += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _RefusedError("TPL007", f"macros call each other more than {MAX_DEPTH:,} levels deep")
        if self.calls > MAX_CALLS:
            raise _RefusedError(
                "TPL007", f"the template calls macros and functions more than {MAX_CALLS:,} times"
            )
        try:
            yield
        finally:
            self.depth -= 1

    # ---- what templates can call -------------------------------------------------------------------------

    def _environment(self) -> SandboxedEnvironment:
        import jinja2

        jinja = sandbox(self._load, self.called)
        jinja.globals.clear()
        namespace = jinja2.utils.Namespace
        jinja.globals.update(
            var=self._var, env_var=self._env_var, range=self._range, dict=dict, namespace=namespace
        )
        # A rendering must give the same text every time.
        del jinja.filters["random"]
        for name, filter_ in jinja.filters.items():
            jinja.filters[name] = bounded_filter(filter_)
        return jinja

    def _var(self, name: str, default: Any = _MISSING) -> Any:
        if name in self.variables:
            return self.variables[name]
        if default is not _MISSING:
            return default
        near = did_you_mean(name, self.variables)
        hint = f"pass --var {name}=…, or give a default: var('{name}', …)"
        if near is not None:
            hint = f"did you mean '{near}'? Else {hint}"
        raise _RefusedError("TPL005", f"the variable `{name}` is not set", help=hint, word=f"var('{name}'")

    def _env_var(self, name: str, default: Any = _MISSING) -> Any:
        if name in self.env:
            return self.env[name]
        if default is not _MISSING:
            return default
        raise _RefusedError(
            "TPL006",
            f"the environment variable `{name}` is not set",
            help=f"export {name}=…, or give a default: env_var('{name}', …)",
            word=f"env_var('{name}'",
        )

    def _range(self, *arguments: int) -> range:
        numbers = range(*arguments)
        self.iterations += len(numbers)
        if self.iterations > MAX_ITERATIONS:
            raise _RefusedError(
                "TPL007", f"the template's loops run more than {MAX_ITERATIONS:,} times", word="range("
            )
        return numbers

    # ---- files -------------------------------------------------------------------------------------------

    def _load(self, environment: Any, name: str) -> tuple[str, str, Callable[[], bool]]:
        import jinja2

        self.loads += 1
        if self.loads > MAX_FILES:
            raise _RefusedError("TPL007", f"the template loads more than {MAX_FILES} files")
        if name == self.file:
            text = self.sources[self.file]
            self._refuse_texts(environment, name, text)
            return self._mark(environment, name, text), name, lambda: True
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts or "\\" in name:
            raise _RefusedError(
                "TPL004", f"`{name}` is outside of the folders that templates may read", word=name
            )
        for root in self.roots:
            path = root / name
            # A link may not lead out of the folder either.
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                try:
                    text = _newlines(path.read_text(encoding="utf-8"))
                except UnicodeDecodeError:
                    raise _RefusedError("TPL003", f"`{path}` is not UTF-8 text", word=name) from None
                shown = str(path)
                self.sources.setdefault(shown, text)
                self._refuse_texts(environment, shown, text)
                return self._mark(environment, shown, text), shown, lambda: True
        raise jinja2.TemplateNotFound(name)

    def _refuse_texts(self, environment: Any, file: str, text: str) -> None:
        """Refuse `'{{' || x || '}}'`, of which a template makes the text ` || x || `, and `'{#' || x || '#}'`, of which it
        leaves nothing: nobody means that.

        Inside quotes of the query's own, braces around one text and nothing else are no template, but for those that write
        braces. Raises DiagnosticError.
        """
        try:
            tokens = list(environment.lexer.tokeniter(text, file, file))
        except Exception:
            return  # It does not lex: compiling it says why.
        before = ""
        for index, (line, kind, value) in enumerate(tokens):
            closing = {"variable_begin": "variable_end", "comment_begin": "comment_end"}.get(kind)
            if closing is not None and before.count("'") % 2:
                end = next((i for i in range(index, len(tokens)) if tokens[i][1] == closing), index)
                inside = [t for t in tokens[index + 1 : end] if t[1] != "whitespace"]
                if len(inside) == 1 and _between_texts(inside[0][1], inside[0][2]):
                    written = "".join(t[2] for t in tokens[index : end + 1]).split("\n", 1)[0]
                    what, stop = (
                        ("template", "}}") if kind == "variable_begin" else ("template's comment", "#}")
                    )
                    message = f"from `{value}` to the next `{stop}` is a {what}, also inside a text"
                    self._report(
                        "TPL001",
                        message,
                        file,
                        line,
                        written,
                        _AS_TEXT.replace("{{' }} for `{{", f"{value}' }}}} for `{value}"),
                    )
            if kind == "data":
                before = (before + value).rpartition("\n")[2]

    def _mark(self, environment: Any, file: str, text: str) -> str:
        text = _TEXT.sub(lambda found: found.group().translate(_SHIELDED), text)
        if not self.marked:
            return text
        return marked_source(environment, list(self.sources).index(file), file, text)

    # ---- errors ------------------------------------------------------------------------------------------

    def _missing(self, error: Any) -> NoReturn:
        name = error.name or (error.templates[0] if error.templates else "?")
        existing = sorted(
            str(path.relative_to(root))
            for root in self.roots
            if root.is_dir()
            for path in (*root.glob("*.sql"), *root.glob("*.jinja"))
        )
        near = did_you_mean(str(name), existing)
        self._fail(
            "TPL003",
            f"there is no template `{name}`",
            error,
            notes=("looked in " + ", ".join(str(root) for root in self.roots),),
            help=f"did you mean '{near}'?" if near else None,
            word=str(name),
        )

    def _undefined(self, error: Exception) -> NoReturn:
        found = re.search(r"'([^']*)'", str(error))
        name = found.group(1) if found else None
        known = ("var", "env_var", "range", "dict", "namespace")
        near = did_you_mean(name, known) if name else None
        hint = None
        notes: tuple[str, ...] = ()
        undefined = name is not None and str(error) == f"'{name}' is undefined"
        if undefined and name in _OF_DBT and name not in self.variables:
            notes = (
                f"`{name}` is dbt's; a pipeline is one file, and declares the tables that it reads and writes",
            )
            hint = _OF_DBT[name]
        elif near is not None:
            hint = f"did you mean `{near}`?"
        elif name is not None and name in self.variables:
            hint = f"write {{{{ var('{name}') }}}}"
        elif undefined:
            hint = f"write {{{{ var('{name}') }}}} and pass --var {name}=…"
        word = name.split(".")[-1] if name else None
        self._fail("TPL002", str(error), error, notes=notes, help=hint, word=word)

    def _fail(
        self,
        code: str,
        message: str,
        error: BaseException,
        *,
        notes: tuple[str, ...] = (),
        help: str | None = None,
        word: str | None = None,
    ) -> NoReturn:
        file, line = self.file, 1
        for frame, number in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename in self.sources:
                file, line = frame.f_code.co_filename, number
        self._report(code, message, file, line, word, help, notes)

    def _report(
        self,
        code: str,
        message: str,
        file: str,
        line: int,
        word: str | None,
        help: str | None,
        notes: tuple[str, ...] = (),
    ) -> NoReturn:
        lines = self.sources[file].split("\n")
        line = max(1, min(line, len(lines)))
        text = lines[line - 1]
        column, length = _place(text, word)
        if word is not None and word not in text:
            # Jinja names the line where a statement starts; the word may be further down.
            for number, other in enumerate(lines, start=1):
                if word in other:
                    line, (column, length) = number, _place(other, word)
                    break
        span = Span(file, line, column, length)
        raise DiagnosticError(Diagnostic(code, unmarked(message), span, notes, help))


def _between_texts(kind: str, value: str) -> bool:
    """Whether what stands between braces begins and ends with quotes that are the query's own."""
    if kind == "comment":
        return value.count("'") % 2 == 0 and "'" in value
    return kind == "string" and value.startswith("'") and not _BRACES.fullmatch(value[1:-1])


def _place(text: str, word: str | None) -> tuple[int, int]:
    at = text.find(word) if word else -1
    if at >= 0 and word is not None:
        return at + 1, len(word)
    begin = re.search(r"\{[{%#]", text)
    if begin is not None:
        end = re.compile(r"[%}#]\}").search(text, begin.end())
        return begin.start() + 1, (end.end() if end else len(text)) - begin.start()
    stripped = len(text) - len(text.lstrip())
    return stripped + 1, max(1, len(text.strip()))


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
