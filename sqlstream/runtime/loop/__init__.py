"""The epoch loop on the driver: what is read, what is published, where it starts again."""
