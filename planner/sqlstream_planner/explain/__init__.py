"""Plans for people and for tools."""
