"""Joins: pairs of the rows of two relations, kept up to date."""
