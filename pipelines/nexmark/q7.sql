-- Nexmark q7, highest bid: the bids that have the highest price of their 10 seconds.
-- An interval join, though nobody says so: a bid meets the ends of windows that are at most 10 seconds later.
-- golden: var events=20000
{% include 'nexmark.sql' %}

CREATE TABLE highest_bids (
  auction BIGINT, price BIGINT, bidder BIGINT, bid_time TIMESTAMP(3), extra STRING
) WITH ('connector' = 'print');

INSERT INTO highest_bids
SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid AS b
JOIN (
  SELECT MAX(price) AS maxprice, window_end AS dateTime
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS m ON b.price = m.maxprice
WHERE b.dateTime BETWEEN m.dateTime - INTERVAL '10' SECOND AND m.dateTime;
