-- By hand. Cut after three epochs, whose last had the watermarks 00:00:06 of l (its first 6 rows less 4 s), 00:00:04 of r (4
-- rows) and 00:00:08 of c (4 rows). So rows of l up to 00:00:04 (before c: 00:00:06) were given before the savepoint.
CREATE VIEW l AS SELECT * FROM read_json('input/l*.json', columns = {id: 'INT', k: 'INT', ts: 'TIMESTAMP'});
CREATE VIEW r AS SELECT * FROM read_json('input/r*.json', columns = {k: 'INT', s: 'VARCHAR', w: 'BIGINT', ts: 'TIMESTAMP'});
CREATE VIEW c AS SELECT op, unnest(data)
FROM read_json('input/c*.json', columns = {op: 'VARCHAR', data: 'STRUCT(k INT, s VARCHAR, ts TIMESTAMP)'});
-- versions
SELECT id, s, w FROM (SELECT l.id, r.s, r.w FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts
  WHERE l.ts > TIMESTAMP '2024-03-01 00:00:04') WHERE w > 1;
-- changes
SELECT l.id, CASE WHEN c.op <> '-D' THEN c.s END AS s FROM l ASOF LEFT JOIN c ON l.k = c.k AND l.ts >= c.ts
WHERE l.ts > TIMESTAMP '2024-03-01 00:00:06';
-- before
SELECT l.id, r.s, r.w FROM l ASOF LEFT JOIN r ON l.ts > r.ts
WHERE l.ts > TIMESTAMP '2024-03-01 00:00:04';
