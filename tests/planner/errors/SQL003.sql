CREATE TABLE t (a INTT) WITH ('connector' = 'datagen');
SELECT a FROM t;
