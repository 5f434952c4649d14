"""Avro: schemas, and records of one schema as Arrow and back, without a Python object a value."""
