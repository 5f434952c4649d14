"""Windows: their arithmetic, the aggregate over them, and what waits for them to close."""
