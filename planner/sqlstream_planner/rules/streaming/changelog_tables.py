"""A table whose source gives changes  ->  the changes, made consistent by its PRIMARY KEY."""

from __future__ import annotations

from sqlstream_planner.logical import ChangelogNormalize, Node, Scan, Sink, transform


def changelog_tables(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Put a ChangelogNormalize over each scan of changes with a key, as Flink does.

    >>> from sqlstream_planner.testing import logical
    >>> table = \"\"\"CREATE TABLE c (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)
    ...   WITH ('connector' = 'filesystem', 'path' = 'c.json', 'format' = 'debezium-json');\"\"\"
    >>> print(logical("SELECT v FROM c", rules=(changelog_tables,), declarations=table))
    sink result
      project v = v
        normalize changes by k
          scan c (k, v)
    """

    def rewrite(node: Node) -> Node:
        if isinstance(node, Scan) and node.primary_key:
            return ChangelogNormalize(node, node.primary_key, node, node.ttl_us)
        return node

    return transform(roots, rewrite)
