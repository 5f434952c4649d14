-- Departures from New York's three airports in January 2013, and how late they were.
--
-- Real data, out of order as the world is: rows come in the order in which the flights landed, event time is when
-- they took off. In this data no departure is more than 11 hours behind the latest one before it (data/README.md).
-- Cancelled flights have no departure; they are in no window and go to the dead-letter table.
--
-- Run it:  sqlstream run --drain pipelines/flights/departures.sql   (without --drain the last windows wait for the next run)

CREATE TABLE flights (
  dep_time       TIMESTAMP(0),
  sched_dep_time TIMESTAMP(0),
  dep_delay      INT,           -- minutes, negative if early
  arr_delay      INT,
  carrier        STRING,
  flight         INT,
  tailnum        STRING,
  origin         STRING,
  dest           STRING,
  air_time       INT,           -- minutes
  distance       INT,           -- miles
  WATERMARK FOR dep_time AS dep_time - INTERVAL '11' HOUR
) WITH (
  'connector' = 'filesystem',
  'path' = 'data/flights-*.csv',
  'format' = 'csv'
);

-- What is counted is the same for all three tables.
{% macro delays() %}
  COUNT(*) AS departures,
  COUNT(*) FILTER (WHERE dep_delay > {{ var('late_minutes', 15) }}) AS late,
  ROUND(AVG(dep_delay), 2) AS average_delay,
  MAX(dep_delay) AS longest_delay
{% endmacro %}
{% macro columns() %}
  departures    BIGINT,
  late          BIGINT,
  average_delay DOUBLE,
  longest_delay INT
{% endmacro %}

CREATE TABLE daily (
  window_start TIMESTAMP(3),
  origin       STRING,
  {{ columns() }}
) WITH ('connector' = 'filesystem', 'path' = 'out/daily', 'format' = 'csv');

CREATE TABLE rush (
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  origin       STRING,
  {{ columns() }}
) WITH ('connector' = 'filesystem', 'path' = 'out/rush', 'format' = 'csv');

CREATE TABLE day_so_far (
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  carrier      STRING,
  {{ columns() }}
) WITH ('connector' = 'filesystem', 'path' = 'out/day_so_far', 'format' = 'parquet');

EXECUTE STATEMENT SET
BEGIN

-- Each airport's day.
INSERT INTO daily
SELECT window_start, origin, {{ delays() }}
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(dep_time), INTERVAL '1' DAY))
GROUP BY window_start, window_end, origin;

-- Three busy hours at an airport, looked at every hour.
INSERT INTO rush
SELECT window_start, window_end, origin, {{ delays() }}
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(dep_time), INTERVAL '1' HOUR, INTERVAL '3' HOURS))
GROUP BY window_start, window_end, origin
HAVING COUNT(*) >= 60;

-- Each airline's day so far, every six hours, for the four largest.
INSERT INTO day_so_far
SELECT window_start, window_end, carrier, {{ delays() }}
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(dep_time), INTERVAL '6' HOURS, INTERVAL '1' DAY))
WHERE carrier IN ('UA', 'B6', 'EV', 'DL')
GROUP BY window_start, window_end, carrier;

END;
