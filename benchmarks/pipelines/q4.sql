-- Nexmark q4: the average closing price by category; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT category, AVG(top) AS average
FROM (
  SELECT a.id, a.category, MAX(b.price) AS top
  FROM auction AS a
  JOIN bid AS b ON b.auction = a.id AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
