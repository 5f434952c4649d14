"""The tables and views that a script declares, with their options: names and times are checked, LIKE is resolved."""
