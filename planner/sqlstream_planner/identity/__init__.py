"""What expressions, relations, sources and states mean, as versioned plain data that outlives a plan."""
