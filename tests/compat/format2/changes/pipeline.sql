CREATE TABLE t (
  id INT, k INT, v BIGINT, s STRING, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '60' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'changelog-json');

-- changelog_normalize
CREATE TABLE rows WITH ('connector' = 'blackhole') AS SELECT id, k, v, s FROM t;

-- what needs its values one by one once rows go
CREATE TABLE groups WITH ('connector' = 'blackhole') AS
SELECT k, COUNT(*) AS c, SUM(v) AS sv, MIN(v) AS lo, MAX(s) AS hi, COUNT(DISTINCT s) AS ds, ARRAY_AGG(v ORDER BY v, id) AS vs
FROM t GROUP BY k;

CREATE TABLE top2 WITH ('connector' = 'blackhole') AS
SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM t) AS r WHERE rn <= 2;

-- suppress_until_close
CREATE TABLE tumbled WITH ('connector' = 'blackhole') AS
SELECT window_start, window_end, COUNT(*) AS c, SUM(v) AS sv, MAX(v) AS hi
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
