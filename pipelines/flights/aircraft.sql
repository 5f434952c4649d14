-- The first and the last departure of each aircraft, by the time of departure: rows come in the order in which flights
-- landed, so a short flight can be read before a longer one that left earlier, and either table may be corrected.
{% include 'flights.sql' %}

{% macro flight_of_aircraft() %}
  tailnum  STRING,
  dep_time TIMESTAMP(0),
  carrier  STRING,
  flight   INT,
  origin   STRING,
  dest     STRING,
  PRIMARY KEY (tailnum) NOT ENFORCED
{% endmacro %}

CREATE TABLE first_flights ({{ flight_of_aircraft() }}) WITH ('connector' = 'duckdb', 'path' = 'out/aircraft.duckdb');

CREATE TABLE last_flights ({{ flight_of_aircraft() }}) WITH ('connector' = 'duckdb', 'path' = 'out/aircraft.duckdb');

EXECUTE STATEMENT SET
BEGIN

INSERT INTO first_flights
SELECT tailnum, dep_time, carrier, flight, origin, dest
FROM flights
WHERE tailnum IS NOT NULL AND dep_time IS NOT NULL
QUALIFY ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY dep_time) = 1;

INSERT INTO last_flights
SELECT tailnum, dep_time, carrier, flight, origin, dest
FROM flights
WHERE tailnum IS NOT NULL AND dep_time IS NOT NULL
QUALIFY ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY dep_time DESC) = 1;

END;
