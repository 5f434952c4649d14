-- Nexmark q17, auction statistics of each day: bids by range of price, and their prices.
-- golden: var events=5000
{% include 'nexmark.sql' %}
{% from 'counts.sql' import counts, count_columns %}

CREATE TABLE auction_statistics (
  auction BIGINT,
  day STRING,
  {{ count_columns('bids') }},
  min_price BIGINT,
  max_price BIGINT,
  avg_price DOUBLE,
  sum_price DECIMAL(38, 0),
  PRIMARY KEY (auction, day) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO auction_statistics
SELECT
  auction,
  DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day,
  {{- counts('bids') }},
  MIN(price),
  MAX(price),
  AVG(price),
  SUM(price)
FROM bid
GROUP BY auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd');
