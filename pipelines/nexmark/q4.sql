-- Nexmark q4, average price for a category: the average of the highest bids on the category's auctions while they were open.
-- An aggregate over an aggregate over a join: each new highest bid takes the former one out of the average.
-- golden: var events=5000
{% include 'nexmark.sql' %}

CREATE TABLE category_prices (
  category BIGINT, average DOUBLE,
  PRIMARY KEY (category) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO category_prices
SELECT category, AVG(final)
FROM (
  SELECT a.id, a.category, MAX(b.price) AS final
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
