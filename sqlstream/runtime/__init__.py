"""Runs pipelines: the epoch loop, its tasks, and Spark to run them on."""
