CREATE TABLE l (id INT, k INT, v BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'input/l*.json', 'format' = 'json');
CREATE TABLE r (k INT, s STRING, w BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'input/r*.json', 'format' = 'json');

-- both sides append only
CREATE TABLE pairs WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s, r.w FROM l JOIN r ON l.k = r.k AND l.v < r.w;

-- rows without a partner, and with a condition beside the keys
CREATE TABLE padded WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s FROM l FULL JOIN r ON l.k = r.k AND r.w > 5;

-- a side whose rows go
CREATE TABLE counted WITH ('connector' = 'blackhole') AS
SELECT l.id, c.n FROM l LEFT JOIN (SELECT k, COUNT(*) AS n FROM r GROUP BY k) AS c ON l.k = c.k;

-- no equality
CREATE TABLE near WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s FROM l JOIN r ON l.v BETWEEN r.w - 1 AND r.w + 1;
