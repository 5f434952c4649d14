"""Sources and sinks, one per file; `api` has the protocols that they follow."""
