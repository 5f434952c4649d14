-- Nexmark q3: who sells in three states in one category; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
