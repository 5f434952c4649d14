"""JSON: one object a record, or a line of a file."""
