"""The plan of an edit: what happens to every state, source and sink, as `plan` shows it and `run` carries it out."""
