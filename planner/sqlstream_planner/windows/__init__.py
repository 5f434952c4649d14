"""Windows as SQL and as plans: bounds of time windows, and what functions OVER read, reach and carry on."""
