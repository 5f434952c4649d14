-- Nexmark q14, calculation: bids of some size, with the time of day that they were made in and how often `c` is in
-- their text. The original counts with a function in Java; two LENGTHs do as well.
-- golden: var events=7500
-- golden: var rate=1
-- golden: var base_time=2024-01-01 06:30:00
{% include 'nexmark.sql' %}

CREATE TABLE large_bids (
  auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bid_time_type STRING, dateTime TIMESTAMP(3),
  extra STRING, c_counts BIGINT
) WITH ('connector' = 'print');

INSERT INTO large_bids
SELECT
  auction,
  bidder,
  0.908 * price,
  CASE
    WHEN HOUR(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END,
  dateTime,
  extra,
  CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', ''))
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
