-- Nexmark q2, selection: the bids on some auctions.
{% include 'nexmark.sql' %}

CREATE TABLE some_bids (auction BIGINT, price BIGINT) WITH ('connector' = 'print');

INSERT INTO some_bids
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;
