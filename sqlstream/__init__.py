"""Streaming SQL on Spark: the command line, the epoch loop, connectors and the golden check."""
