"""What is known of a node's rows: one analysis a file, computed once per node, from what is known of its inputs."""
