-- Bidders who look like robots, by one of two rules over the same state: `--var rule=b` can start from a savepoint of rule a.
-- golden: var events=3000
{% set rules = {'a': 'COUNT(*) >= 5', 'b': 'COUNT(*) >= 3 AND MAX(bid.price) >= 1000 * MIN(bid.price)'} %}
CREATE TABLE events (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT>,
  dateTime TIMESTAMP(3),
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events' = '{{ var("events", 20000) }}', 'rate' = '200');

CREATE TABLE suspects (
  bidder BIGINT,
  bids BIGINT,
  lowest BIGINT,
  highest BIGINT,
  PRIMARY KEY (bidder) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/rule_{{ var("rule", "a") }}.duckdb');

INSERT INTO suspects
SELECT bid.bidder, COUNT(*) AS bids, MIN(bid.price) AS lowest, MAX(bid.price) AS highest
FROM events
WHERE event_type = 2
GROUP BY bid.bidder
HAVING {{ rules[var("rule", "a")] }};
