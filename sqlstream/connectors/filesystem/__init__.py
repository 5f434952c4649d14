"""The `filesystem` connector: files of JSON lines, CSV, Parquet, Avro or ORC, local or in an object store."""
