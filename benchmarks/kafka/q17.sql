-- Nexmark q17, topic to topic: prices and counts per auction and day.
{% include 'bid.sql' %}

CREATE TABLE counted (
  auction BIGINT,
  `day` STRING,
  bids BIGINT,
  rank1_bids BIGINT,
  rank2_bids BIGINT,
  rank3_bids BIGINT,
  low BIGINT,
  high BIGINT,
  total BIGINT,
  PRIMARY KEY (auction, `day`) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  {% include 'written_once.sql' %}
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO counted
SELECT
  auction,
  DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`,
  COUNT(*) AS bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  MIN(price) AS low,
  MAX(price) AS high,
  SUM(price) AS total
FROM bid
GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd');
