"""State directories that begin with savepoints of others: with one, or with several together."""
