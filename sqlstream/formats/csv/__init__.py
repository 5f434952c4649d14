"""CSV (RFC 4180, the options of Flink)."""
