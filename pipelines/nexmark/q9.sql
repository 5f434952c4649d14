-- Nexmark q9, winning bids: of each auction the highest bid while it was open, of several the earliest.
-- golden: var events=5000
{% include 'nexmark.sql' %}

CREATE TABLE winning_bids (
  id BIGINT, itemName STRING, category BIGINT, seller BIGINT, expires TIMESTAMP(3),
  bidder BIGINT, price BIGINT, bid_time TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO winning_bids
SELECT id, itemName, category, seller, expires, bidder, price, bid_time
FROM (
  SELECT a.id, a.itemName, a.category, a.seller, a.expires, b.bidder, b.price, b.dateTime AS bid_time,
         ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) AS place
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
)
WHERE place <= 1;
