CREATE TABLE numbers (id BIGINT, r INT) WITH (
  'connector' = 'datagen', 'number-of-rows' = '100', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '100'
);
CREATE TABLE events (event_type INT, dateTime TIMESTAMP(3)) WITH ('connector' = 'nexmark', 'events' = '200', 'rate' = '10');
CREATE TABLE tens WITH ('connector' = 'blackhole') AS SELECT id % 10 AS m, COUNT(*) AS c, SUM(id) AS s FROM numbers GROUP BY id % 10;
CREATE TABLE kinds WITH ('connector' = 'blackhole') AS SELECT event_type, COUNT(*) AS c FROM events GROUP BY event_type;
