"""The `delta` connector: rows are added to a Delta table, exactly once by the table's own log.

Tasks write Parquet files into the table's folder, where no reader looks for them; the commit of an epoch is one commit of
the log, which names its files and says, as an application's transaction, which epoch it is.
"""
