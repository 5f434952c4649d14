-- Nexmark q4, average price for a category, its aggregation part: the average of the highest bids on the category's
-- auctions. An aggregate over an aggregate: each new highest bid takes the former one out of the average.
-- The original reads the category from the auction, and counts the bids while the auction is open; both wait for joins.
-- Here the category is made up from the auction's number, and every bid counts.
{% include 'nexmark.sql' %}

CREATE TABLE category_averages (
  category BIGINT, average DOUBLE, auctions BIGINT,
  PRIMARY KEY (category) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO category_averages
SELECT category, AVG(final), COUNT(*)
FROM (
  SELECT auction, 10 + MOD(auction, 5) AS category, MAX(price) AS final
  FROM bid
  GROUP BY auction
)
GROUP BY category;
