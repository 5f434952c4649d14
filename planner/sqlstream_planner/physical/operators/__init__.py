"""One file per operator: which node it runs, its spec and state, its SQL before the exchange, and its explanation."""
