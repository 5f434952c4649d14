"""An epoch's tasks whatever runs them: the job, its tasks, and their reports put together."""
