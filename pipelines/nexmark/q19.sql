-- Nexmark q19, the ten highest bids on each auction, with their ranks.
-- Its output is a log of changes that any consumer can apply: one file an epoch, a line a change.
-- golden: var events=2000
{% include 'nexmark.sql' %}

CREATE TABLE top_bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING,
  rank_number BIGINT
) WITH ('connector' = 'filesystem', 'path' = 'out/top_bids', 'format' = 'changelog-json');

INSERT INTO top_bids
SELECT *
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
)
WHERE rank_number <= 10;
