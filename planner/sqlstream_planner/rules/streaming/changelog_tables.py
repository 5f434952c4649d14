"""A table whose source gives changes  ->  the changes, made consistent by its PRIMARY KEY."""

from __future__ import annotations

from sqlstream_planner.logical import Node, Scan
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import ChangelogNormalize


def changelog_tables(node: Node, streaming: Streaming) -> Node | None:
    """Put a ChangelogNormalize over each scan of changes with a key, as Flink does.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> table = "CREATE TABLE c (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changes');"
    >>> print(logical("SELECT v FROM c", rules=streaming(changelog_tables), declarations=table))
    sink result
      project v = v
        changelog normalize by k
          scan c (k, v)
    """
    if not isinstance(node, Scan) or not node.primary_key:
        return None
    return ChangelogNormalize(node, node.primary_key, streaming.meaning(node), node.ttl_us)
