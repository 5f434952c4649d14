-- Nexmark q16, channel statistics of each day: q15 for every channel, and the last minute in which it had a bid.
-- golden: var events=3000
{% include 'nexmark.sql' %}
{% from 'counts.sql' import counts, count_columns %}

CREATE TABLE channel_statistics (
  channel STRING,
  day STRING,
  minute STRING,
  {{ count_columns('bids') }},
  {{ count_columns('bidders') }},
  {{ count_columns('auctions') }},
  PRIMARY KEY (channel, day) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO channel_statistics
SELECT
  channel,
  DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day,
  MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS minute,
  {{- counts('bids') }},
  {{- counts('bidders', 'DISTINCT bidder') }},
  {{- counts('auctions', 'DISTINCT auction') }}
FROM bid
GROUP BY channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd');
