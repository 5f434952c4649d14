"""Rules over relational algebra that give relational algebra: one form of what is equal."""
