CREATE TABLE t (id INT, k INT, v BIGINT, s STRING)
WITH ('connector' = 'filesystem', 'path' = 'input/t*.json', 'format' = 'json');

-- no frame, and several functions
CREATE TABLE running WITH ('connector' = 'blackhole') AS
SELECT k, v, SUM(v) OVER w AS total, RANK() OVER w AS place, FIRST_VALUE(s) OVER w AS s
FROM t WINDOW w AS (PARTITION BY k ORDER BY v);

-- equal rows are rows of their own
CREATE TABLE numbered WITH ('connector' = 'blackhole') AS
SELECT v, ROW_NUMBER() OVER (ORDER BY v DESC) AS n, LAG(v, 2) OVER (ORDER BY v DESC) AS former FROM t;

-- rows that go
CREATE TABLE averages WITH ('connector' = 'blackhole') AS
SELECT k, n, AVG(n) OVER (ORDER BY n, k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS average
FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k);
