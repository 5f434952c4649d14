"""The `blackhole` connector: rows are counted and kept nowhere."""
