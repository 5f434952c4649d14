-- Nexmark q12 on event time, topic to topic: bids per bidder in 10 s tumbling windows.
{% include 'bid.sql' %}

CREATE TABLE counted (
  bidder BIGINT,
  bids BIGINT,
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3)
) WITH (
  'connector' = 'kafka',
  {% include 'written_once.sql' %}
  'format' = 'json'
);

INSERT INTO counted
SELECT bidder, COUNT(*) AS bids, window_start, window_end
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
