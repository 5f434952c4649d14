-- Nexmark q10, log to files: every bid into a folder of its day and minute. Parquet, in place of the original's CSV.
-- golden: var events=1500
-- golden: var rate=10
{% include 'nexmark.sql' %}

CREATE TABLE bid_log (
  auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra STRING, dt STRING, hm STRING
) PARTITIONED BY (dt, hm) WITH ('connector' = 'filesystem', 'path' = 'out/bid_log', 'format' = 'parquet');

INSERT INTO bid_log
SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd'), DATE_FORMAT(dateTime, 'HHmm')
FROM bid;
