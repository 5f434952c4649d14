-- By hand. Of 50 events one is a person (0), 3 are auctions (1) and 46 are bids (2).
-- tens
SELECT id % 10 AS m, count(*), sum(id) FROM range(1, 101) AS r(id) GROUP BY m;
-- kinds
SELECT unnest([0, 1, 2]), unnest([4, 12, 184]);
