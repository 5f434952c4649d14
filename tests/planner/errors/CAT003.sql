CREATE TABLE t (a INT, A STRING) WITH ('connector' = 'datagen');
SELECT a FROM t;
