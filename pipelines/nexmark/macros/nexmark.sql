{#
  The auction site's events, and views of its three kinds. Included by every Nexmark query.
  Variables: events, rate (events a second of event time), out_of_order, base_time,
  seed.
#}
CREATE TABLE events (
  event_type INT,
  person  ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
              dateTime TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
              dateTime TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid     ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
              dateTime TIMESTAMP(3), extra STRING>,
  dateTime TIMESTAMP(3),
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
  'connector' = 'nexmark',
  'events' = '{{ var("events", 20000) }}',
  'rate' = '{{ var("rate", 200) }}',
  'out-of-order' = '{{ var("out_of_order", "4 s") }}',
  'base-time' = '{{ var("base_time", "2024-01-01 00:00:00") }}',
  'seed' = '{{ var("seed", 0) }}'
);

CREATE TEMPORARY VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime, bid.extra
FROM events
WHERE event_type = 2;

CREATE TEMPORARY VIEW auction AS
SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, dateTime,
       auction.expires, auction.seller, auction.category, auction.extra
FROM events
WHERE event_type = 1;

CREATE TEMPORARY VIEW person AS
SELECT person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, dateTime, person.extra
FROM events
WHERE event_type = 0;
