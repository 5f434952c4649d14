"""The program of a task, without Spark: its epoch, its stages, and what it reports."""
