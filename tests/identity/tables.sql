CREATE TABLE t (k INT, g STRING, v BIGINT, d DECIMAL(10, 2), x DOUBLE, s STRING, b BOOLEAN, a ARRAY<INT>, m MAP<STRING, INT>,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE u (k INT, g STRING, v BIGINT, d DECIMAL(10, 2), x DOUBLE, s STRING, b BOOLEAN, a ARRAY<INT>, m MAP<STRING, INT>,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'u', 'format' = 'json');
CREATE TABLE c (id INT, k INT, w BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'changelog-json');
