"""Generated sources: rows that are a function of their number, so any range can be made anywhere, again."""
