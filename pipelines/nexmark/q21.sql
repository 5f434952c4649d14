-- Nexmark q21, channel id: the four big channels have a number, the others carry theirs in the URL.
-- golden: var events=1000
{% include 'nexmark.sql' %}

CREATE TABLE bids_with_channel (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING
) WITH ('connector' = 'print');

-- DuckDB's REGEXP_EXTRACT gives '' where nothing matches (Flink's gives NULL).
INSERT INTO bids_with_channel
SELECT
  auction,
  bidder,
  price,
  channel,
  CASE LOWER(channel)
    WHEN 'apple' THEN '0'
    WHEN 'google' THEN '1'
    WHEN 'facebook' THEN '2'
    WHEN 'baidu' THEN '3'
    ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
  END
FROM bid
WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) <> ''
   OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');
