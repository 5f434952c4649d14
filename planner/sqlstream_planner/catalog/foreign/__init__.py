"""Catalogs that a file names with CREATE CATALOG: which tables there are is asked of whoever plans, and names find them."""
