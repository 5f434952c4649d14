CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1', 'number-of-rows' = '2');
SELECT a FROM t;
