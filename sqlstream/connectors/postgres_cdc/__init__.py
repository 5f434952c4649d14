"""The changes of tables in PostgreSQL: a snapshot, then what its write-ahead log says (`pgoutput`)."""
