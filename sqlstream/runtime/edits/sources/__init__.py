"""What becomes of sources when a pipeline is edited: where each goes on, whose data is elsewhere, what was not read."""
