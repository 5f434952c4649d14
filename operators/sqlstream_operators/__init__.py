"""What runs inside a Spark task: fragments, stateful operators and their state.

Knows no SQL dialect (a fragment is a string that it hands to DuckDB) and no Spark.
"""
