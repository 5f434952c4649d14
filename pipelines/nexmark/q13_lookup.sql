-- Nexmark q13 as it was meant: a bid is given at once, with what the side table says of its auction when the bid is read.
-- golden: var events=1000
{% include 'nexmark.sql' %}

CREATE TABLE side_input (
  `key`   BIGINT,
  `value` STRING,
  PRIMARY KEY (`key`) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'path' = 'data/side_input.csv',
  'format' = 'csv',
  'lookup.cache' = 'FULL',
  'lookup.full-cache.periodic-reload.interval' = '10 min'
);

CREATE TABLE bids_with_value (
  auction BIGINT, bidder BIGINT, price BIGINT, bid_time TIMESTAMP(3), `value` STRING
) WITH ('connector' = 'print');

INSERT INTO bids_with_value
SELECT b.auction, b.bidder, b.price, b.dateTime, s.`value`
FROM bid AS b
JOIN side_input FOR SYSTEM_TIME AS OF PROCTIME() AS s ON MOD(b.auction, 100) = s.`key`;
