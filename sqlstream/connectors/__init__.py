"""Sources and sinks, one a file; `api` has the protocols that they follow."""
