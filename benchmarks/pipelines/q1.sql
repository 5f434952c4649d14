-- Nexmark q1: every bid's price in euros; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra
FROM bid;
