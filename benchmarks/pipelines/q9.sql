-- Nexmark q9: the winning bid of each auction; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT *
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.`dateTime` AS bid_time, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime`) AS rn
  FROM auction AS a
  JOIN bid AS b ON b.auction = a.id AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
)
WHERE rn = 1;
