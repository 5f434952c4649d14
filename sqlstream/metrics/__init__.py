"""Figures of a run for Prometheus."""
