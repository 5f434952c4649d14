"""Names in SQL that we write: none may mean anything to DuckDB but what it means in the plan.

A column of a plan has one name. Where DuckDB reads `"a"."b"` it looks for a relation `a` first, and where a lambda has a
parameter `a`, `"a"` is that: so a field of a struct is never written behind a bare name, and a parameter is called
otherwise than every column that its lambda reads.
"""

from __future__ import annotations

from sqlglot import exp


def is_bare(node: exp.Expr) -> bool:
    """Whether something before a dot would be read as the name of a relation."""
    return isinstance(node, exp.Column | exp.Identifier)


def apart_from_columns(function: exp.Lambda) -> exp.Lambda:
    """A lambda that means the same, and no parameter of which is called like a column that is read in it.

    >>> from sqlglot import parse_one
    >>> read = parse_one('list_transform(a, lambda x: x + 1)', read="duckdb").expression
    >>> read.this.set("expression", exp.column("X", quoted=True))
    >>> apart_from_columns(read).sql("duckdb")
    'LAMBDA x_1 : x_1 + "X"'
    """
    columns = {part.name.lower() for part in function.find_all(exp.Column)}
    if not any(p.name.lower() in columns for p in function.expressions):
        return function
    taken = columns | {part.name.lower() for part in function.find_all(exp.Identifier)}
    made = function.copy()
    for parameter in made.expressions:
        old = parameter.name.lower()
        if old not in columns:
            continue
        new, number = f"{parameter.name}_1", 1
        while new.lower() in taken:
            number += 1
            new = f"{parameter.name}_{number}"
        taken.add(new.lower())
        for name in _meaning(made.this, old):
            name.set("this", new)
        parameter.set("this", new)
    return made


def _meaning(body: exp.Expr, parameter: str) -> list[exp.Identifier]:
    """The names in the body of a lambda that mean its parameter, which none of a lambda inside is called by."""
    found, stack = [], [body]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Lambda) and any(p.name.lower() == parameter for p in node.expressions):
            continue
        if isinstance(node, exp.Identifier):
            if node.name.lower() == parameter and is_value(node):
                found.append(node)
            continue
        stack += node.iter_expressions()
    return found


def is_value(node: exp.Identifier) -> bool:
    """Whether an identifier stands for a value, and is no part of a longer name or the name of something."""
    parent = node.parent
    if isinstance(parent, exp.Column | exp.Alias | exp.TableAlias | exp.ColumnDef):
        return False
    if isinstance(parent, exp.PropertyEQ | exp.Kwarg):
        return node.arg_key != "this"
    if isinstance(parent, exp.Dot):
        return node.arg_key == "this"
    return not (isinstance(parent, exp.Lambda) and node.arg_key == "expressions")
