CREATE TABLE t (a INT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT a FROM t;
