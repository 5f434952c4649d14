-- Nexmark q13, bids with what a side table says of their auction. The original reads it by processing time; here it is one
-- side of a join, and a bid waits for its row if that is read later: the answer does not depend on when what is read.
-- golden: var events=1000
{% include 'nexmark.sql' %}

CREATE TABLE side_input (
  `key`   BIGINT,
  `value` STRING
) WITH (
  'connector' = 'filesystem',
  'path' = 'data/side_input.csv',
  'format' = 'csv'
);

CREATE TABLE bids_with_value (
  auction BIGINT, bidder BIGINT, price BIGINT, bid_time TIMESTAMP(3), `value` STRING
) WITH ('connector' = 'print');

INSERT INTO bids_with_value
SELECT b.auction, b.bidder, b.price, b.dateTime, s.`value`
FROM bid AS b
JOIN side_input AS s ON MOD(b.auction, 100) = s.`key`;
