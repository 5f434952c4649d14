CREATE TABLE t (a INT) WITH ("connector" = 'datagen');
SELECT a FROM t;
