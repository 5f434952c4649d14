CREATE TABLE t (
  n INT, k INT, s STRING, v BIGINT, d DECIMAL(10, 2), x DOUBLE, b BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '15' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');

-- group_aggregate, distinct_values
CREATE TABLE groups WITH ('connector' = 'blackhole') AS
SELECT k, COUNT(*) AS c, SUM(v) AS sv, AVG(d) AS ad, MIN(v) AS lo, MAX(s) AS hi, BOOL_OR(b) AS o, SUM(x) AS sx,
  COUNT(DISTINCT s) AS ds, SUM(DISTINCT v) FILTER (WHERE b) AS dv
FROM t GROUP BY k;

-- multisets: values one by one
CREATE TABLE counted WITH ('connector' = 'blackhole') AS
SELECT c, COUNT(*) AS m, MIN(k) AS lo, MAX(k) AS hi, ARRAY_AGG(k ORDER BY k) AS ks, COUNT(DISTINCT sv) AS dv
FROM (SELECT k, s, COUNT(*) AS c, SUM(v) AS sv FROM t GROUP BY k, s) AS g GROUP BY c;

CREATE TABLE lists WITH ('connector' = 'blackhole') AS
SELECT s, ARRAY_AGG(v ORDER BY n) AS vs, MEDIAN(d) AS m FROM t GROUP BY s;

-- a key of several columns; none
CREATE TABLE whole WITH ('connector' = 'blackhole') AS SELECT COUNT(*) AS c, SUM(d) AS sd, MAX(ts) AS last FROM t;
CREATE TABLE pairs WITH ('connector' = 'blackhole') AS SELECT DISTINCT k, s FROM t;

-- top_n, in one value a partition
CREATE TABLE top2 WITH ('connector' = 'blackhole') AS
SELECT k, n, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, n) AS rn FROM t) AS r WHERE rn <= 2;

-- top_n, a row a value
CREATE TABLE ranked WITH ('connector' = 'blackhole') AS
SELECT s, n, v, r FROM (SELECT *, RANK() OVER (PARTITION BY s ORDER BY v) AS r FROM t) AS q WHERE r <= 2;

-- deduplicate
CREATE TABLE firsts WITH ('connector' = 'blackhole') AS
SELECT k, b, n, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, b ORDER BY ts) AS rn FROM t) AS r WHERE rn = 1;

-- window_aggregate; HOP shares slices among windows
CREATE TABLE tumbled WITH ('connector' = 'blackhole') AS
SELECT window_start, window_end, k, COUNT(*) AS c, SUM(d) AS sd, COUNT(DISTINCT s) AS ds
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
CREATE TABLE hopped WITH ('connector' = 'blackhole') AS
SELECT window_start, window_end, COUNT(*) AS c, MAX(v) AS hi
FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) GROUP BY window_start, window_end;

-- window_top_n
CREATE TABLE best WITH ('connector' = 'blackhole') AS
SELECT window_end, k, c FROM (
  SELECT window_start, window_end, k, COUNT(*) AS c,
    ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC, k NULLS LAST) AS rn
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k
) AS w WHERE rn <= 2;
CREATE TABLE leaders WITH ('connector' = 'blackhole') AS
SELECT window_end, n, v, s FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, n) AS rn
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND))
) AS w WHERE rn <= 2;

-- first_row
CREATE TABLE kept (k INT, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO kept SELECT CAST(v AS INT) AS k, n FROM t WHERE v IS NOT NULL ON CONFLICT DO NOTHING;
