"""Spark: the session, an epoch as one job, and workers that start warm."""
