-- Nexmark q0: every bid, passed through, from Parquet. No state: what reading and moving rows costs.
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

CREATE TABLE passed (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra STRING
) WITH ('connector' = 'blackhole');

INSERT INTO passed
SELECT auction, bidder, price, `dateTime`, extra
FROM bid;
