CREATE CATALOG marts WITH ('type' = 'duckdb', 'path' = 'marts.duckdb');
CREATE CATALOG Marts WITH ('type' = 'duckdb', 'path' = 'other.duckdb');
CREATE CATALOG default_catalog WITH ('type' = 'duckdb', 'path' = 'marts.duckdb');
SELECT 1 AS a;
