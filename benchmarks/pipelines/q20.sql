-- Nexmark q20: bids with what they are for, in one category; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.`dateTime` AS bid_time, b.extra AS bid_extra, a.itemName, a.description,
  a.initialBid, a.reserve, a.`dateTime` AS auction_time, a.expires, a.seller, a.category, a.extra AS auction_extra
FROM bid AS b
JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10;
