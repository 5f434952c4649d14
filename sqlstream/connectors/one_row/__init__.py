"""The source of one row that VALUES and a SELECT without FROM are computed of; no table can name it."""
