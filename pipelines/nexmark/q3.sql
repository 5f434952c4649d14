-- Nexmark q3, local item suggestion: who sells in three states in one category. Each pair is given once, when the later of
-- the seller and the auction comes.
-- golden: var events=5000
{% include 'nexmark.sql' %}

CREATE TABLE local_items (name STRING, city STRING, state STRING, id BIGINT) WITH ('connector' = 'print');

INSERT INTO local_items
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
