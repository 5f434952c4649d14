-- Nexmark q2: the bids on every 123rd auction, from JSON lines. No state, and few rows out.
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
  'path' = '{{ var('data') }}/json/bid',
  'format' = 'json'
);

CREATE TABLE picked (
  auction BIGINT,
  price BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO picked
SELECT auction, price
FROM bid
WHERE MOD(auction, 123) = 0;
