CREATE TABLE l (id INT, k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = 'input/l*.json', 'format' = 'json');
CREATE TABLE r (k INT, s STRING, us TIMESTAMP(3), WATERMARK FOR us AS us - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = 'input/r*.json', 'format' = 'json');

-- pairs of rows that are near each other in time
CREATE TABLE pairs WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s FROM l JOIN r ON l.k = r.k AND r.us BETWEEN l.ts - INTERVAL '4' SECOND AND l.ts + INTERVAL '6' SECOND;

-- rows without a partner, of both sides
CREATE TABLE padded WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s FROM l FULL JOIN r ON l.k = r.k AND r.us BETWEEN l.ts AND l.ts + INTERVAL '9' SECOND;

-- those that have one, and those that have none
CREATE TABLE met WITH ('connector' = 'blackhole') AS
SELECT l.id FROM l SEMI JOIN r ON l.k = r.k AND l.ts < r.us AND r.us < l.ts + INTERVAL '8' SECOND;
CREATE TABLE unmet WITH ('connector' = 'blackhole') AS
SELECT l.id FROM l ANTI JOIN r ON l.k = r.k AND l.ts < r.us AND r.us < l.ts + INTERVAL '8' SECOND;

-- rows in windows, by no other key
CREATE TABLE together WITH ('connector' = 'blackhole') AS
SELECT a.id, b.s, a.window_end
FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS a
LEFT JOIN TABLE(TUMBLE(TABLE r, DESCRIPTOR(us), INTERVAL '10' SECOND)) AS b
ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.v > 10;
