CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'pth' = 'x', 'path' = 'x', 'format' = 'json');
SELECT a FROM t;
