-- By hand. Cut after three epochs, before any session closes.
CREATE VIEW t AS SELECT *, row_number() OVER () AS id
FROM read_json('input/*.json', columns = {k: 'INT', s: 'VARCHAR', v: 'BIGINT', ts: 'TIMESTAMP'});
CREATE MACRO first_of(times, t, gap) AS
  (SELECT max(x) FROM unnest(times) AS u(x) WHERE x <= t AND len(list_filter(times, lambda y: y < x AND y >= x - gap)) = 0);
CREATE MACRO last_of(times, t, gap) AS
  (SELECT min(x) FROM unnest(times) AS u(x) WHERE x >= t AND len(list_filter(times, lambda y: y > x AND y <= x + gap)) = 0);
-- kept
SELECT first_of(times, ts, INTERVAL 20 SECOND), last_of(times, ts, INTERVAL 20 SECOND) + INTERVAL 20 SECOND, k, s, v
FROM (SELECT *, list(ts) OVER (PARTITION BY k, s) AS times FROM t);
-- others
SELECT last_of(times, ts, INTERVAL 10 SECOND) + INTERVAL 10 SECOND AS e, s, count(*), max(v)
FROM (SELECT *, list(ts) OVER (PARTITION BY k) AS times FROM t) GROUP BY e, s;
-- alone
SELECT first_of(times, ts, INTERVAL 3 SECOND), v FROM (SELECT *, list(ts) OVER () AS times FROM t);
