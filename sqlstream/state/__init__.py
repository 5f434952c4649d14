"""State to look at: what operators keep, as relations of SQL, read without disturbing the run that writes it."""
