"""Confluent's schema registry: its REST protocol, and what it puts before each record."""
