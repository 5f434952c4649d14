"""OVER: functions of each row over the rows around it."""
