"""The `print` connector: rows on the terminal."""
