CREATE TABLE t (k INT, s STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)
WITH ('connector' = 'filesystem', 'path' = 'input/*.json', 'format' = 'json');

-- rows with their session
CREATE TABLE kept WITH ('connector' = 'blackhole') AS
SELECT window_start, window_end, k, s, v
FROM TABLE(SESSION(TABLE t PARTITION BY k, s, DESCRIPTOR(ts), INTERVAL '20' SECOND));

-- by another column than those of the partition
CREATE TABLE others WITH ('connector' = 'blackhole') AS
SELECT window_end, s, COUNT(*) AS n, MAX(v) AS m
FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_end, s;

-- all in one partition
CREATE TABLE alone WITH ('connector' = 'blackhole') AS
SELECT window_start, v FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND));
