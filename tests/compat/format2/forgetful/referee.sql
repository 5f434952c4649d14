-- By hand. An epoch has 4 rows; the clock is at 0 s and 60 s before the cut, then at 30, 78 and 667 minutes; what was not
-- touched for an hour is forgotten, and given once more. Before the cut 1, 2 and 3 were given.
-- Then 1 and 4 (4 is new); 2 (not touched since 0 s), 1 (touched at 30 min: kept) and 5 (new); all four of 1, 2, 3 and 4.
-- seen
SELECT unnest([4, 2, 5, 1, 2, 3, 4]);
