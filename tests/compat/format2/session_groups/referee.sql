-- By hand. Cut after three epochs, before any session closes.
CREATE VIEW t AS SELECT * FROM read_json('input/*.json', columns = {k: 'INT', s: 'VARCHAR', v: 'BIGINT', x: 'DOUBLE', ts: 'TIMESTAMP'});
CREATE MACRO first_of(times, t, gap) AS
  (SELECT max(x) FROM unnest(times) AS u(x) WHERE x <= t AND len(list_filter(times, lambda y: y < x AND y >= x - gap)) = 0);
CREATE MACRO last_of(times, t, gap) AS
  (SELECT min(x) FROM unnest(times) AS u(x) WHERE x >= t AND len(list_filter(times, lambda y: y > x AND y <= x + gap)) = 0);
-- visits
SELECT first_of(times, ts, INTERVAL 20 SECOND) AS b, last_of(times, ts, INTERVAL 20 SECOND) + INTERVAL 20 SECOND AS e, k, s,
  count(*), sum(v), max(x), count(v) FILTER (WHERE x > 5)
FROM (SELECT *, list(ts) OVER (PARTITION BY k, s) AS times FROM t) GROUP BY ALL;
-- alone
SELECT last_of(times, ts, INTERVAL 3 SECOND) + INTERVAL 3 SECOND AS e, min(v), avg(v)
FROM (SELECT *, list(ts) OVER () AS times FROM t) GROUP BY e;
