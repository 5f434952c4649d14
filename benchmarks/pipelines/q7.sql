-- Nexmark q7: the highest bids of each ten seconds; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra
FROM bid AS b
JOIN (
  SELECT window_time, window_end AS until, MAX(price) AS top
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, window_time
) AS m ON b.price = m.top AND b.`dateTime` BETWEEN m.until - INTERVAL '10' SECOND AND m.until;
