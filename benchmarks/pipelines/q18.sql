-- Nexmark q18: the last bid of each bidder on each auction; from Parquet.
-- Variables: data, a folder written by the peers' generator (…/data/10000000).

CREATE TABLE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel STRING,
  url STRING,
  `dateTime` TIMESTAMP(3),
  extra STRING,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '{{ var('data') }}/parquet/bid',
  'format' = 'parquet'
);

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT auction, bidder, price, channel, url, `dateTime`, extra
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rn FROM bid
)
WHERE rn = 1;
