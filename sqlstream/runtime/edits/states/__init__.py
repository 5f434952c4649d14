"""What becomes of states when a pipeline is edited: the job that makes new ones of old, what they forgot."""
