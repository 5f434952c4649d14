-- By hand. Cut after three epochs.
CREATE VIEW l AS SELECT * FROM read_json('input/l*.json', columns = {id: 'INT', k: 'INT', v: 'BIGINT'});
CREATE VIEW r AS SELECT * FROM read_json('input/r*.json', columns = {k: 'INT', s: 'VARCHAR', w: 'BIGINT'});
-- pairs
SELECT l.id, r.s, r.w FROM l JOIN r ON l.k = r.k AND l.v < r.w;
-- padded
SELECT l.id, r.s FROM l FULL JOIN r ON l.k = r.k AND r.w > 5;
-- counted
SELECT l.id, c.n FROM l LEFT JOIN (SELECT k, count(*) AS n FROM r GROUP BY k) AS c ON l.k = c.k;
-- near
SELECT l.id, r.s FROM l JOIN r ON l.v BETWEEN r.w - 1 AND r.w + 1;
