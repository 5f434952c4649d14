"""Sub-queries in expressions to joins (Neumann and Kemper, BTW 2015): an Apply of one row, for all rows at once."""
