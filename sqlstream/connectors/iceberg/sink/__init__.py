"""Iceberg tables as sinks: tasks write data files, and a commit of the table's log names them, with the epoch."""
