-- Nexmark q8, monitor new users: who opened an auction in the very 10 seconds in which they came.
-- A window join of two aggregates over windows.
-- golden: var events=20000
{% include 'nexmark.sql' %}

CREATE TABLE new_sellers (
  id BIGINT, name STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3)
) WITH ('connector' = 'print');

INSERT INTO new_sellers
SELECT p.id, p.name, p.window_start, p.window_end
FROM (
  SELECT id, name, window_start, window_end
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
) AS p
JOIN (
  SELECT seller, window_start, window_end
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
) AS a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;
