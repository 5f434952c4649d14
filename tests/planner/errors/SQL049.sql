CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
SELECT bidder, LAST_VALUE(price) FROM (SELECT bidder, price FROM bid UNION ALL SELECT auction, price FROM bid) GROUP BY bidder;
