CREATE TABLE t WITH ('connector' = 'datagen');
SELECT 1 FROM t;
