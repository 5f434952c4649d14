"""What `spark` and `jdbc` share: a table that Spark reads, copied once by its tasks, and read from the copy."""
