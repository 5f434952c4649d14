CREATE CATALOG marts WITH ('type' = 'duckdb', 'path' = 'marts.duckdb');
CREATE TABLE marts.main.copies (a INT) WITH ('connector' = 'print');
USE CATALOG marts;
CREATE VIEW ones AS SELECT 1 AS a;
SELECT 1 AS a;
