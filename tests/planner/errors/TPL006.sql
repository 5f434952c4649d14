SELECT {{ env_var('NOT_SET_ANYWHERE') }} FROM t;
