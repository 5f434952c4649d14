"""The `spark` connector: any table or format that Spark reads (how is in `spark_tables`)."""
