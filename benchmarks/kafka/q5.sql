-- Nexmark q5, topic to topic: the auctions with most bids in each window.
{% include 'bid.sql' %}

CREATE TABLE counted (
  auction BIGINT,
  n BIGINT
) WITH (
  'connector' = 'kafka',
  {% include 'written_once.sql' %}
  'format' = 'json'
);

INSERT INTO counted
SELECT c.auction, c.n
FROM (
  SELECT auction, window_start, window_end, COUNT(*) AS n
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) AS c
JOIN (
  SELECT window_start, window_end, MAX(n) AS top
  FROM (
    SELECT auction, window_start, window_end, COUNT(*) AS n
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  )
  GROUP BY window_start, window_end
) AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n >= m.top;
