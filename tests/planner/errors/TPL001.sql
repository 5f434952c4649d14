SELECT {{ var('x' }} FROM t;
