"""Golden files: what a pipeline must give on its bounded input, judged by DuckDB."""
