"""Iceberg tables, by Apache's library for Python (`pyiceberg`, the extra `iceberg`)."""
