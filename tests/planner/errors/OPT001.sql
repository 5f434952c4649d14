CREATE TABLE t (a INT) WITH ('connector' = 'pulsar', 'topics' = 'x');
SELECT a FROM t;
