-- Nexmark q8: who sells in the ten seconds in which they came; from Parquet.
{% include 'nexmark_parquet.sql' %}

CREATE TABLE result WITH ('connector' = 'blackhole') AS
SELECT p.id, p.name, p.window_start
FROM (
  SELECT id, name, window_start, window_end
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
) AS p
JOIN (
  SELECT seller, window_start, window_end
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
) AS s ON p.id = s.seller AND p.window_start = s.window_start AND p.window_end = s.window_end;
