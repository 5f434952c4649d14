CREATE CATALOG marts WITH ('type' = 'duckdb', 'path' = 'marts.duckdb');
USE CATALOG mart;
USE CATALOG default_catalog;
USE marts;
SELECT 1 AS a;
