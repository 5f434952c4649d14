-- Nexmark q20, bids with what they are for, in one category.
-- golden: var events=5000
{% include 'nexmark.sql' %}

CREATE TABLE expanded_bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, bid_time TIMESTAMP(3),
  itemName STRING, initialBid BIGINT, reserve BIGINT, expires TIMESTAMP(3), seller BIGINT, category BIGINT
) WITH ('connector' = 'print');

INSERT INTO expanded_bids
SELECT b.auction, b.bidder, b.price, b.channel, b.dateTime,
       a.itemName, a.initialBid, a.reserve, a.expires, a.seller, a.category
FROM bid AS b
JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10;
