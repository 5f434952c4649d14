"""Delta tables as sources: the table as it is, then what each version adds or changes."""
