CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 'x');
SELECT a FROM t;
