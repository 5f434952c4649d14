"""About texts, knowing nothing of what they say: what a terminal may show, what hides passwords."""
