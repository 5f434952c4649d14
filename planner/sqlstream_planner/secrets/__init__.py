"""Passwords: kept out of plans, and out of what people see."""
