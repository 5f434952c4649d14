"""Types and functions as the installed DuckDB says, for the planner, which has none."""
