{#
  The flights from New York's three airports in January 2013, in the order in which they landed (../data/README.md).
  A cancelled flight has no departure, a diverted one no arrival.
#}
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
  'path' = '{{ var("data", "data") }}/flights-*.csv',
  'format' = 'csv'
);
