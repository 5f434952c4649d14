"""Sub-queries in expressions to joins (Neumann and Kemper, BTW 2015): what an Apply says of one row, said of all at once."""
