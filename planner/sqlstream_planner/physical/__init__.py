"""Logical plan to physical plan: which stages there are, what crosses the exchanges between them, and what is kept."""
