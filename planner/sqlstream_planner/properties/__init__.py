"""What is known of a node's rows: one analysis per file, computed once per node, from what is known of its inputs."""
