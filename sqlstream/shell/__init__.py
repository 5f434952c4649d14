"""The engine of `sqlstream sql`: statements that are typed, and what they give over samples, sinks and state.

It reads, and changes neither state nor sinks.
"""
