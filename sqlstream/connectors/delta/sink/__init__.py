"""Delta tables as sinks: rows are added, or merged by key, and the log says which epoch it has."""
