"""Expressions: their types, their functions, casts between types."""
