-- The three busiest routes of each day, by the flights that were planned on it, and how often each route is among them.
-- Three queries that update one another: counts, the first three of the counts, and a count of those: a route that
-- loses its place on a day loses that day in `days_on_top` as well.
{% include 'flights.sql' %}

CREATE TABLE top_routes (
  day     DATE,
  place   BIGINT,
  origin  STRING,
  dest    STRING,
  flights BIGINT,
  PRIMARY KEY (day, place) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/routes.duckdb');

CREATE TABLE days_on_top (
  origin STRING,
  dest   STRING,
  days   BIGINT,
  first  BIGINT,        -- days on which it was the busiest
  most   BIGINT,        -- flights on its busiest day
  PRIMARY KEY (origin, dest) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/routes.duckdb');

CREATE TEMPORARY VIEW route_days AS
SELECT CAST(sched_dep_time AS DATE) AS day, origin, dest, COUNT(*) AS flights
FROM flights
GROUP BY CAST(sched_dep_time AS DATE), origin, dest;

-- Routes with as many flights as another are ordered by their names.
CREATE TEMPORARY VIEW top_three AS
SELECT day, origin, dest, flights, ROW_NUMBER() OVER (PARTITION BY day ORDER BY flights DESC, origin, dest) AS place
FROM route_days
QUALIFY place <= 3;

EXECUTE STATEMENT SET
BEGIN

INSERT INTO top_routes
SELECT day, place, origin, dest, flights FROM top_three;

INSERT INTO days_on_top
SELECT origin, dest, COUNT(*), COUNT(*) FILTER (WHERE place = 1), MAX(flights)
FROM top_three
GROUP BY origin, dest;

END;
