"""Aggregate functions: one record a function.

Each file has a family; a record says how a function is written, what it is, and how it is computed over rows that
only come, over rows that come and go, and over distinct values (`function.AggregateFunction`). To add one, write
its record and put it into its family's `FUNCTIONS`; nothing else of the planner knows a function by its name.
"""
