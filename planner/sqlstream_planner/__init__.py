"""SQL text to plan: dialect, binding, logical and physical plan, state schemas, DuckDB SQL, explain."""
