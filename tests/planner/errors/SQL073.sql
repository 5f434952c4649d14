CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, tags ARRAY<STRING>,
  item ROW<name STRING, size INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE TABLE totals (auction BIGINT, top BIGINT) WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO totals SELECT auction, MAX(price) FROM bid GROUP BY auction ON CONFLICT DO DEDUPLICATE;
