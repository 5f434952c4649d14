"""Top-N and deduplication: rows by their rank."""
