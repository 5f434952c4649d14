-- Nexmark q6, average selling price by seller: of a seller's last ten auctions that were sold, as each was.
-- OVER rows that change: a higher bid on an auction takes the former one out of the averages that it was in.
-- golden: var events=5000
{% include 'nexmark.sql' %}

CREATE TABLE seller_prices (
  id BIGINT, seller BIGINT, final BIGINT, bid_time TIMESTAMP(3), average DOUBLE,
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO seller_prices
SELECT id, seller, final, bid_time,
       AVG(final) OVER (PARTITION BY seller ORDER BY bid_time, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
FROM (
  SELECT a.id, a.seller, b.price AS final, b.dateTime AS bid_time,
         ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) AS place
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
)
WHERE place <= 1;
