"""`cloudFiles`: folders of files as a streaming source that reads each file once; Spark parses them natively."""
