-- Nexmark q5, hot items: the auctions that have the most bids of the last 10 seconds, every 2 seconds.
-- A window join of the counts with the greatest of each window.
-- golden: var events=20000
{% include 'nexmark.sql' %}

CREATE TABLE hot_items (
  auction BIGINT, num BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3)
) WITH ('connector' = 'print');

CREATE VIEW counts AS
SELECT auction, COUNT(*) AS num, window_start, window_end
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;

INSERT INTO hot_items
SELECT c.auction, c.num, c.window_start, c.window_end
FROM counts AS c
JOIN (
  SELECT MAX(num) AS maxnum, window_start, window_end
  FROM counts
  GROUP BY window_start, window_end
) AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxnum;
