CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE TABLE rate (
  currency STRING, rate DOUBLE, ts TIMESTAMP(3), PRIMARY KEY (currency) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'rates', 'format' = 'changelog-json');
SELECT price, rate FROM bid ASOF JOIN rate ON bid.channel = rate.currency AND bid.ts >= rate.ts;
