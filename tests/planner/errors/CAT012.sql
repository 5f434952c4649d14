CREATE TABLE t (a INT, `__Kind` STRING) WITH ('connector' = 'datagen');
CREATE TABLE u WITH ('connector' = 'blackhole') AS SELECT 1 AS __weight, 2 AS b;
