-- By hand. Cut after three epochs.
CREATE VIEW t AS SELECT * FROM read_json('input/t*.json', columns = {id: 'INT', k: 'INT', v: 'BIGINT', s: 'VARCHAR'});
-- running
SELECT k, v, (SELECT sum(b.v) FROM t AS b WHERE b.k IS NOT DISTINCT FROM a.k AND b.v <= a.v),
       1 + (SELECT count(*) FROM t AS b WHERE b.k IS NOT DISTINCT FROM a.k AND b.v < a.v),
       (SELECT min(b.s) FROM t AS b WHERE b.k IS NOT DISTINCT FROM a.k
          AND b.v = (SELECT min(c.v) FROM t AS c WHERE c.k IS NOT DISTINCT FROM a.k))
FROM t AS a;
-- numbered
SELECT l[i], i, CASE WHEN i > 2 THEN l[i - 2] END
FROM (SELECT list_reverse_sort(list(v)) AS l FROM t), range(1, len(l) + 1) AS r(i);
-- averages
SELECT l[i].k, l[i].n, list_avg([x.n for x in l[greatest(i - 2, 1):i]])
FROM (SELECT list_sort(list({n: n, k: k}), 'ASC', 'NULLS LAST') AS l FROM (SELECT k, count(*) AS n FROM t GROUP BY k)),
     range(1, len(l) + 1) AS r(i);
