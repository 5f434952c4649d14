"""Iceberg tables as sources: the table at a snapshot, then what each snapshot adds."""
