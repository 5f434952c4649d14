-- By hand. Cut after 16 rows, 4 an epoch: the watermark of the fourth epoch is that of the first 12 rows, 10:00:50 (n = 10) or
-- 10:00:55 (n = 11) less 15 s = 10:00:40. So windows that end up to then were given before the savepoint.
CREATE VIEW t AS SELECT * FROM read_json('input/*.json', columns = {n: 'INT', k: 'INT', s: 'VARCHAR', v: 'BIGINT',
  d: 'DECIMAL(10, 2)', x: 'DOUBLE', b: 'BOOLEAN', ts: 'TIMESTAMP'});
CREATE VIEW in_time AS SELECT * FROM t WHERE n <> 31;
-- groups
SELECT k, count(*), sum(v), avg(d), min(v), max(s), bool_or(b), sum(x), count(DISTINCT s), sum(DISTINCT v) FILTER (WHERE b)
FROM t GROUP BY k;
-- counted
SELECT c, count(*), min(k), max(k), array_agg(k ORDER BY k NULLS FIRST), count(DISTINCT sv)
FROM (SELECT k, s, count(*) AS c, sum(v) AS sv FROM t GROUP BY k, s) GROUP BY c;
-- lists
SELECT s, array_agg(v ORDER BY n), median(d) FROM t GROUP BY s;
-- whole
SELECT count(*), sum(d), max(ts) FROM t;
-- pairs
SELECT DISTINCT k, s FROM t;
-- top2
SELECT k, n, v FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST, n) <= 2;
-- ranked
SELECT s, n, v, rank() OVER (PARTITION BY s ORDER BY v NULLS LAST) AS r FROM t QUALIFY r <= 2;
-- firsts
SELECT k, b, n, d FROM t QUALIFY row_number() OVER (PARTITION BY k, b ORDER BY ts) = 1;
-- tumbled
SELECT time_bucket(INTERVAL 20 SECOND, ts) AS w, w + INTERVAL 20 SECOND AS e, k, count(*), sum(d), count(DISTINCT s)
FROM in_time GROUP BY w, k HAVING e > TIMESTAMP '2024-01-01 10:00:40';
-- hopped
SELECT w, w + INTERVAL 30 SECOND AS e, count(*), max(v)
FROM (SELECT unnest([0, 10, 20]) AS back, time_bucket(INTERVAL 10 SECOND, ts) - to_seconds(back) AS w, v FROM in_time)
GROUP BY w HAVING e > TIMESTAMP '2024-01-01 10:00:40';
-- best
SELECT w + INTERVAL 1 MINUTE AS e, k, count(*) AS c
FROM (SELECT time_bucket(INTERVAL 1 MINUTE, ts) AS w, k FROM in_time) GROUP BY w, k
QUALIFY row_number() OVER (PARTITION BY w ORDER BY c DESC, k NULLS LAST) <= 2;
-- kept
SELECT v, min(n) AS first FROM t WHERE v IS NOT NULL GROUP BY v HAVING first >= 16;
-- leaders
SELECT time_bucket(INTERVAL 20 SECOND, ts) + INTERVAL 20 SECOND AS e, n, v, s FROM in_time WHERE e > TIMESTAMP '2024-01-01 10:00:40'
QUALIFY row_number() OVER (PARTITION BY e ORDER BY v DESC NULLS LAST, n) <= 2;
