-- Nexmark q0, pass through: every bid as it is. What reading and writing alone cost.
-- golden: var events=1000
{% include 'nexmark.sql' %}

CREATE TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra STRING
) WITH ('connector' = 'print');

INSERT INTO bids
SELECT auction, bidder, price, dateTime, extra FROM bid;
