CREATE TABLE t (k INT, s STRING, v BIGINT, x DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)
WITH ('connector' = 'filesystem', 'path' = 'input/*.json', 'format' = 'json');

-- accumulators of sessions that more rows make one
CREATE TABLE visits WITH ('connector' = 'blackhole') AS
SELECT window_start, window_end, k, s, COUNT(*) AS n, SUM(v) AS total, MAX(x) AS most, COUNT(v) FILTER (WHERE x > 5) AS some
FROM TABLE(SESSION(TABLE t PARTITION BY (k, s), DESCRIPTOR(ts), INTERVAL '20' SECOND))
GROUP BY window_start, window_end, k, s;

-- all in one partition
CREATE TABLE alone WITH ('connector' = 'blackhole') AS
SELECT window_end, MIN(v) AS m, AVG(v) AS a FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_end;
