"""Carrying out an edit of the query: what the new one needs is computed from what is kept, or from the input."""
