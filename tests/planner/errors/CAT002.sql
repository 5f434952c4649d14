CREATE TABLE t WITH ('connector' = 'datagen') LIKE missing;
SELECT a FROM t;
