CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE TABLE out (a BIGINT NOT NULL, b STRING) WITH ('connector' = 'blackhole');
INSERT INTO out SELECT price FROM bid;
