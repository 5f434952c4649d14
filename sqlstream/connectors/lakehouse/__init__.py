"""What sinks and sources of tables in a lake share: a folder of files, and a log that says which of them are the table."""
