-- By hand. Cut after three epochs: of at most 24 rows, those of l0 and r0, which have no key and no window in common, and the
-- watermark is behind all of them, so nothing was given before.
CREATE VIEW l AS SELECT *, time_bucket(INTERVAL 10 SECOND, ts) AS b
FROM read_json('input/l*.json', columns = {id: 'INT', k: 'INT', v: 'BIGINT', ts: 'TIMESTAMP'});
CREATE VIEW r AS SELECT *, time_bucket(INTERVAL 10 SECOND, us) AS b
FROM read_json('input/r*.json', columns = {k: 'INT', s: 'VARCHAR', us: 'TIMESTAMP'});
-- pairs
SELECT l.id, r.s FROM l, r WHERE l.k = r.k AND epoch(r.us) - epoch(l.ts) BETWEEN -4 AND 6;
-- padded
SELECT l.id, r.s FROM l FULL JOIN r ON l.k = r.k AND epoch(r.us) - epoch(l.ts) BETWEEN 0 AND 9;
-- met
SELECT id FROM l WHERE EXISTS (FROM r WHERE r.k = l.k AND epoch(us) > epoch(ts) AND epoch(us) < epoch(ts) + 8);
-- unmet
SELECT id FROM l WHERE NOT EXISTS (FROM r WHERE r.k = l.k AND epoch(us) > epoch(ts) AND epoch(us) < epoch(ts) + 8);
-- together
SELECT l.id, r.s, l.b + INTERVAL 10 SECOND AS window_end FROM l LEFT JOIN r ON l.b = r.b AND l.v > 10;
