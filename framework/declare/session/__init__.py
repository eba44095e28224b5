"""The Spark session while a module declares: functions that it registers, SQL that it runs, calls that are refused."""
