CREATE TABLE t (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS a + 1) WITH ('connector' = 'datagen');
SELECT a FROM t;
