-- Nexmark q5, hot items, its first half: bids an auction in the last 10 seconds, every 2 seconds.
-- The second half joins this with the greatest count of each window; it waits for joins.
-- golden: var events=4000
{% include 'nexmark.sql' %}

CREATE TABLE bid_counts (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), auction BIGINT, num BIGINT
) WITH ('connector' = 'print');

INSERT INTO bid_counts
SELECT window_start, window_end, auction, COUNT(*)
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY window_start, window_end, auction;
