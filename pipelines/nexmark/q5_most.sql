-- Nexmark q5, hot items, as far as it goes without a join: how many bids the hottest auction of each window has.
-- A window over a window; which auction it is, is in q5.sql.
{% include 'nexmark.sql' %}

CREATE TABLE most_bids (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), most BIGINT, auctions BIGINT
) WITH ('connector' = 'print');

INSERT INTO most_bids
SELECT window_start, window_end, MAX(num), COUNT(*)
FROM (
  SELECT window_start, window_end, auction, COUNT(*) AS num
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, auction
)
GROUP BY window_start, window_end;
