"""One driver at a time: the lease, and how another driver is noticed."""
