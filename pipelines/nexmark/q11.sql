-- Nexmark q11, user sessions: how many bids each bidder makes until 10 seconds pass without one.
-- The original is on event time too; a session is given once, when the watermark closes it.
{% include 'nexmark.sql' %}

CREATE TABLE bids_per_session (
  bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)
) WITH ('connector' = 'print');

INSERT INTO bids_per_session
SELECT bidder, COUNT(*), window_start, window_end
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
