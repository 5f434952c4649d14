-- Nexmark q15, bidding statistics of each day: bids, and how many different bidders and auctions they come from and
-- go to, for three ranges of price.
{% include 'nexmark.sql' %}
{% from 'counts.sql' import counts, count_columns %}

CREATE TABLE bid_statistics (
  day STRING,
  {{ count_columns('bids') }},
  {{ count_columns('bidders') }},
  {{ count_columns('auctions') }},
  PRIMARY KEY (day) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/nexmark.duckdb');

INSERT INTO bid_statistics
SELECT
  DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day,
  {{- counts('bids') }},
  {{- counts('bidders', 'DISTINCT bidder') }},
  {{- counts('auctions', 'DISTINCT auction') }}
FROM bid
GROUP BY DATE_FORMAT(dateTime, 'yyyy-MM-dd');
