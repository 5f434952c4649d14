"""What the sources have had so far, read again for what no state has: what of it is there, the side job that reads it."""
