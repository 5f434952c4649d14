CREATE TABLE l (id INT, k INT, v BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'input/l*.json', 'format' = 'json');
CREATE TABLE r (k INT, s STRING, w BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'input/r*.json', 'format' = 'json');

-- three by one key
CREATE TABLE three WITH ('connector' = 'blackhole') AS
SELECT l.id, r.s, c.n FROM l JOIN r ON l.k = r.k JOIN (SELECT k, COUNT(*) AS n FROM r GROUP BY k) AS c ON l.k = c.k;

-- two that share a side, rows without a key among it
CREATE TABLE padded WITH ('connector' = 'blackhole') AS
SELECT l.id, l.v, r.s FROM l LEFT JOIN r ON l.k = r.k;

CREATE TABLE alone WITH ('connector' = 'blackhole') AS
SELECT l.id, l.v FROM l ANTI JOIN r ON l.k = r.k AND l.v < r.w;

-- by two keys
CREATE TABLE twice WITH ('connector' = 'blackhole') AS
SELECT a.s, a.w, b.s AS s2, b.w AS w2 FROM r AS a JOIN r AS b ON a.k = b.k AND a.s = b.s;
