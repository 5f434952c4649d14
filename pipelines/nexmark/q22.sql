-- Nexmark q22, URL directories: three parts of every bid's URL.
-- golden: var events=1000
{% include 'nexmark.sql' %}

CREATE TABLE bid_directories (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING
) WITH ('connector' = 'print');

INSERT INTO bid_directories
SELECT
  auction,
  bidder,
  price,
  channel,
  SPLIT_INDEX(url, '/', 3),
  SPLIT_INDEX(url, '/', 4),
  SPLIT_INDEX(url, '/', 5)
FROM bid;
