SELECT {{ colour }} FROM t;
