"""What becomes of sinks when a pipeline is edited: what each holds, goes on with, is brought to or begins with."""
