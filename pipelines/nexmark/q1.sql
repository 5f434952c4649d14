-- Nexmark q1, currency conversion: every bid's price in euros.
-- golden: var events=1000
{% include 'nexmark.sql' %}

CREATE TABLE bids_in_euros (
  auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), dateTime TIMESTAMP(3), extra STRING
) WITH ('connector' = 'print');

INSERT INTO bids_in_euros
SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid;
