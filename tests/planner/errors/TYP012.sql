CREATE TABLE t (s STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');

SELECT s FROM t WHERE s RLIKE '^[a-z+$';
