"""Changelogs with a key: what a source's changes and ON CONFLICT come to."""
