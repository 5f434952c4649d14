-- Nexmark q7, highest bid, its first half: the highest price of every 10 seconds. Who bid it is in q7.sql.
{% include 'nexmark.sql' %}

CREATE TABLE highest_bid (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), price BIGINT, bids BIGINT
) WITH ('connector' = 'print');

INSERT INTO highest_bid
SELECT window_start, window_end, MAX(price), COUNT(*)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
