"""What `help` prints."""

from __future__ import annotations

HELP = """\
Statements end with a semicolon and may have several lines.
  SELECT …                      rows: sources are samples, sinks and state as they are committed
  EXPLAIN SELECT …              the plan that `sqlstream run` would have: operators, state, mode
  DESCRIBE t                    the columns of a table, view or query
  SHOW TABLES | VIEWS [LIKE …]  what can be selected from; state is `state.<operator>`
  SHOW FUNCTIONS [LIKE 'a%']    what can be called
  SHOW CATALOGS | DATABASES     catalogs; SHOW DATABASES FROM c, SHOW TABLES FROM c.db: what is in them
  USE CATALOG c | [c.]db        which catalog and database names are of
  SHOW CREATE TABLE | VIEW t    the statement, without passwords
  CREATE TABLE | VIEW …         declares for this session only; DROP takes it away
  SET                           the settings; SET 'name' = 'value' changes one for EXPLAIN and SELECT
Commands
  \\d [t]  DESCRIBE, SHOW TABLES       \\dt  SHOW TABLES      \\dv  SHOW VIEWS      \\df [a%]  SHOW FUNCTIONS
  \\i f    run the statements of a file  \\x   a line for each column, on or off    \\q  quit, exit, Ctrl-D
Ctrl-C cancels the line or the query. The shell changes neither state nor sinks: `sqlstream run` does.
"""
