-- The worst delays of each airline so far: its three latest arrivals, its three latest departures, and how late it is
-- on the whole. The tables are right after every epoch; a worse flight pushes the third one out.
--
-- Run it:  sqlstream run pipelines/flights/worst_delays.sql
-- and look:  duckdb pipelines/flights/out/flights.duckdb "FROM worst_arrivals"
{% include 'flights.sql' %}

{% set top = var('top', 3) %}
{% macro worst_table() %}
  carrier  STRING,
  place    BIGINT,      -- 1 is the worst
  delay    INT,         -- minutes
  dep_time TIMESTAMP(0),
  flight   INT,
  origin   STRING,
  dest     STRING,
  PRIMARY KEY (carrier, place) NOT ENFORCED
{% endmacro %}
{% macro worst(delay) %}
SELECT carrier, place, {{ delay }}, dep_time, flight, origin, dest
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY {{ delay }} DESC, dep_time, flight) AS place
  FROM flights
  WHERE {{ delay }} IS NOT NULL
)
WHERE place <= {{ top }}
{% endmacro %}

CREATE TABLE worst_arrivals ({{ worst_table() }}) WITH ('connector' = 'duckdb', 'path' = 'out/flights.duckdb');

CREATE TABLE worst_departures ({{ worst_table() }}) WITH ('connector' = 'duckdb', 'path' = 'out/flights.duckdb');

CREATE TABLE carrier_delays (
  carrier           STRING,
  flights           BIGINT,
  cancelled         BIGINT,
  longest_departure INT,
  average_departure DOUBLE,
  longest_arrival   INT,
  average_arrival   DOUBLE,
  PRIMARY KEY (carrier) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/flights.duckdb');

EXECUTE STATEMENT SET
BEGIN

INSERT INTO worst_arrivals {{ worst('arr_delay') }};

INSERT INTO worst_departures {{ worst('dep_delay') }};

INSERT INTO carrier_delays
SELECT
  carrier,
  COUNT(*),
  COUNT(*) FILTER (WHERE dep_time IS NULL),
  MAX(dep_delay),
  ROUND(AVG(dep_delay), 2),
  MAX(arr_delay),
  ROUND(AVG(arr_delay), 2)
FROM flights
GROUP BY carrier;

END;
