"""What becomes of sinks when a pipeline is edited: the content that each has, goes on with, is reconciled with or begins with."""
