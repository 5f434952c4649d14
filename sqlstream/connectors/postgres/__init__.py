"""The `postgres` connector: a table in a PostgreSQL database, kept up to date (what it does is in `database`)."""
