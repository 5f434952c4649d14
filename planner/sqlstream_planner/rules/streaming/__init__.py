"""Rules that make a streaming plan of relational algebra: what each node is kept up to date by."""
