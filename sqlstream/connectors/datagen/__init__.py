"""The `datagen` connector: made-up rows, each a function of seed and row number."""
