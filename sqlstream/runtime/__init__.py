"""The epoch loop on Spark: sessions, stages, manifests, recovery."""
