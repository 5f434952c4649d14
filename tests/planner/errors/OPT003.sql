CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = 'many');
SELECT a FROM t;
