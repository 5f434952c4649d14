"""Plans, specs of operators, types and schemas as plain data: no Arrow, no DuckDB, no RocksDB."""
