"""The `upsert-kafka` connector: a topic as a table with a key (what it does is in `kafka`)."""
