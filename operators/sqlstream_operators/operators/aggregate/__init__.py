"""Aggregates whose results change, and the values that they count one by one."""
