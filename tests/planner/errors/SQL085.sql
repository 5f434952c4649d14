CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE TABLE users (id BIGINT, name STRING) WITH ('connector' = 'duckdb', 'path' = 'users.duckdb');
SELECT n, name FROM (SELECT bidder, COUNT(*) AS n FROM bid GROUP BY bidder) AS b JOIN users FOR SYSTEM_TIME AS OF PROCTIME() AS u ON b.bidder = u.id;
