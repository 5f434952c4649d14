CREATE TABLE t (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/t*.json', 'format' = 'json');

-- totals that go on
CREATE TABLE running WITH ('connector' = 'blackhole') AS
SELECT k, total, average, place, COUNT(*) AS n
FROM (SELECT k, SUM(v) OVER w AS total, AVG(v) OVER w AS average, RANK() OVER w AS place
      FROM t WINDOW w AS (PARTITION BY k ORDER BY ts))
GROUP BY k, total, average, place;

-- rows that are kept for those to come: by number, and by time
CREATE TABLE near WITH ('connector' = 'blackhole') AS
SELECT v, former, last, COUNT(*) AS n
FROM (SELECT v, LAG(v, 2) OVER (ORDER BY ts) AS former,
             COUNT(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS last
      FROM t)
GROUP BY v, former, last;

-- in windows, over all of their rows
CREATE TABLE shares WITH ('connector' = 'blackhole') AS
SELECT total, COUNT(*) AS n
FROM (SELECT v, SUM(v) OVER (PARTITION BY window_start, window_end) AS total
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)))
GROUP BY total;
