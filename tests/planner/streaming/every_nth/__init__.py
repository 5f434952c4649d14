"""A stateful operator that nobody else has heard of: of each key every n-th row, in files where a contributor puts them."""
