CREATE TABLE l (id INT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/l*.json', 'format' = 'json');
CREATE TABLE r (k INT, s STRING, w BIGINT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/r*.json', 'format' = 'json');
CREATE TABLE c (k INT, s STRING, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'input/c*.json', 'format' = 'changelog-json');

-- the version of a table with a key
CREATE TABLE versions WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s, r.w FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k AND r.w > 1;

-- rows that can go
CREATE TABLE changes WITH ('connector' = 'blackhole') AS
SELECT l.id, c.s FROM l LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k;

-- the row before, of any
CREATE TABLE before WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s, r.w FROM l ASOF LEFT JOIN r MATCH_CONDITION (l.ts > r.ts);
