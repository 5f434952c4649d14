"""What becomes of sinks when a pipeline is edited: with which content each goes on or begins, and how it is reconciled."""
