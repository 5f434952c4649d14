"""What sources, columns and state mean, whatever they are called: what has one identity has the same rows."""
