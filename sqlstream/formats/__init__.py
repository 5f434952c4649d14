"""Formats of data: how records or files become rows, and rows become records or files. No format is a connector's."""
