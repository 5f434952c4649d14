CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE VIEW bids AS SELECT auction, COUNT(*) AS n FROM bid GROUP BY auction;
SELECT a.price, b.n FROM bid AS a JOIN bids FOR SYSTEM_TIME AS OF PROCTIME() AS b ON a.auction = b.auction;
