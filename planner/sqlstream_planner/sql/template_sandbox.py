"""Jinja's sandbox with bounds: what a template computes can't fill the memory, and what it calls is counted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from sqlstream_planner.sql.template_bounds import (
    MAX_OUTPUT,
    TOO_LONG,
    bounded,
    bounded_binop,
    bounded_join,
    bounded_widths,
)

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

#: The text of a template by its name, the file that it is from, and whether that is as it was.
Load = Callable[[Any, str], tuple[str, str, Callable[[], bool]]]


def sandbox(load: Load, called: Callable[[], AbstractContextManager[None]]) -> SandboxedEnvironment:
    """Jinja that reads files by `load`, and makes each call within `called`."""
    import jinja2
    from jinja2 import nodes
    from jinja2.compiler import CodeGenerator
    from jinja2.sandbox import SandboxedEnvironment

    class Loader(jinja2.BaseLoader):
        def get_source(
            self, environment: jinja2.Environment, template: str
        ) -> tuple[str, str, Callable[[], bool]]:
            return load(environment, template)

    class Generator(CodeGenerator):
        def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:  # noqa: N802 - Jinja's name
            self.write("environment.joined((")
            for argument in node.nodes:
                self.visit(argument, frame)
                self.write(", ")
            self.write("))")

    class Sandbox(SandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "+", "%"})
        code_generator_class = Generator

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            bounded_binop(operator, left, right)
            return bounded(super().call_binop(context, operator, left, right))

        def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(obj, jinja2.runtime.Macro):
                # Jinja's sandbox gives a function of its own for 'a'.format, around that of the text.
                method = inspect.unwrap(obj) if callable(obj) else obj
                fills = getattr(method, "__name__", "").startswith("format")
                text = getattr(method, "__self__", None)
                if text is not None and getattr(method, "__name__", "") == "join":
                    bounded_join(text, *args)
                else:
                    bounded_widths(text, *args, *kwargs.values(), fills=fills)
            with called():
                return bounded(super().call(context, obj, *args, **kwargs))

        def joined(self, values: Sequence[Any]) -> str:
            """What `a ~ b` gives."""
            texts = [str(value) for value in values]
            if sum(map(len, texts)) > MAX_OUTPUT:
                raise OverflowError(TOO_LONG)
            return "".join(texts)

    return Sandbox(
        loader=Loader(),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        cache_size=0,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
    )
