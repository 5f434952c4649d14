-- By hand. Cut after three epochs; no two rows have one time, and none is late.
CREATE VIEW t AS SELECT * FROM read_json('input/t*.json', columns = {k: 'INT', v: 'BIGINT', ts: 'TIMESTAMP'});
-- running
SELECT k, total, average, place, count(*) FROM (
  SELECT k, (SELECT sum(b.v) FROM t AS b WHERE b.k IS NOT DISTINCT FROM a.k AND b.ts <= a.ts) AS total,
         (SELECT avg(b.v) FROM t AS b WHERE b.k IS NOT DISTINCT FROM a.k AND b.ts <= a.ts) AS average,
         (SELECT count(*) FROM t AS b WHERE b.k IS NOT DISTINCT FROM a.k AND b.ts <= a.ts) AS place
  FROM t AS a)
GROUP BY ALL;
-- near
SELECT v, former, last, count(*) FROM (
  SELECT l[i].v AS v, CASE WHEN i > 2 THEN l[i - 2].v END AS former,
         len([x.v for x in l if x.ts >= l[i].ts - INTERVAL 10 SECOND AND x.ts <= l[i].ts]) AS last
  FROM (SELECT list_sort(list({ts: ts, v: v})) AS l FROM t), range(1, len(l) + 1) AS r(i))
GROUP BY ALL;
-- shares
SELECT total, sum(n)::BIGINT FROM (
  SELECT time_bucket(INTERVAL 10 SECOND, ts) AS w, sum(v) AS total, count(*) AS n FROM t GROUP BY w)
GROUP BY total;
