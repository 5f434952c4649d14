"""Records that are one value each, as bytes."""
