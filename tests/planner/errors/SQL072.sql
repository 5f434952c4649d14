CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE VIEW last_bids AS
SELECT * FROM bid QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts DESC) = 1;
SELECT window_start, SUM(price)
FROM TABLE(TUMBLE(TABLE last_bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
