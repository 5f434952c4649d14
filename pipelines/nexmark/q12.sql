-- Nexmark q12, windowed bids: how many bids each bidder makes in 10 seconds.
-- The original counts in processing time, which no second run can repeat; here it is event time.
{% include 'nexmark.sql' %}

CREATE TABLE bids_per_bidder (
  bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)
) WITH ('connector' = 'print');

INSERT INTO bids_per_bidder
SELECT bidder, COUNT(*), window_start, window_end
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
