"""The `jdbc` connector: a table in a database that has a JDBC driver, read by Spark (how is in `spark_tables`)."""
