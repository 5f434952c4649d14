"""What happens to state when the query is edited: decided for each state, table and field before anything runs."""
