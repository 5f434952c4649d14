CREATE TABLE t (a INT, WATERMARK FOR a AS a) WITH ('connector' = 'datagen');
SELECT a FROM t;
