"""Streaming SQL on Spark: the command line, the epoch loop, connectors and the golden check."""

__version__ = "0.1.0"
