-- By hand. Cut after 24 messages, 4 an epoch, 4 s from one to the next; a row changes for at most 36 s, so no change is late.
-- The watermark of the sixth epoch is that of the first 20 messages, at most 10:01:16 less 60 s: no window was given before.
CREATE VIEW changes AS SELECT n, op, unnest(data) FROM read_json('input/*.json', columns = {op: 'VARCHAR', n: 'INT',
  data: 'STRUCT(id INT, k INT, v BIGINT, s VARCHAR, ts TIMESTAMP)'});
CREATE VIEW t AS SELECT * EXCLUDE (op, n) FROM (SELECT * FROM changes QUALIFY row_number() OVER (PARTITION BY id ORDER BY n DESC) = 1)
  WHERE op <> '-D';
-- rows
SELECT id, k, v, s FROM t;
-- groups
SELECT k, count(*), sum(v), min(v), max(s), count(DISTINCT s), array_agg(v ORDER BY v, id) FROM t GROUP BY k;
-- top2
SELECT k, id, v FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST, id) <= 2;
-- tumbled
SELECT time_bucket(INTERVAL 20 SECOND, ts) AS w, w + INTERVAL 20 SECOND, count(*), sum(v), max(v) FROM t GROUP BY w;
