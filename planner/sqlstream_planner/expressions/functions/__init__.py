"""The functions of the dialect: DuckDB's catalogue, their types, and Flink's and Spark's names for them."""
