"""Aggregate functions: one record per function.

Each file has a family; a record says how a function is written, what it is, and how it is computed over
append-only rows, over updating rows, and over distinct values (`function.AggregateFunction`). To add one, write
its record and put it into its family's `FUNCTIONS`; nothing else of the planner knows a function by its name.
"""
