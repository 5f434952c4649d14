-- By hand. Cut after three epochs.
CREATE VIEW l AS SELECT * FROM read_json('input/l*.json', columns = {id: 'INT', k: 'INT', v: 'BIGINT'});
CREATE VIEW r AS SELECT * FROM read_json('input/r*.json', columns = {k: 'INT', s: 'VARCHAR', w: 'BIGINT'});
-- three
SELECT l.id, r.s, c.n FROM l JOIN r ON l.k = r.k
JOIN (SELECT k, count(*) AS n FROM r GROUP BY k) AS c ON l.k = c.k;
-- padded
SELECT l.id, l.v, r.s FROM l LEFT JOIN r ON l.k = r.k;
-- alone
SELECT l.id, l.v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND l.v < r.w);
-- twice
SELECT a.s, a.w, b.s AS s2, b.w AS w2 FROM r AS a JOIN r AS b ON a.k = b.k AND a.s = b.s;
