"""Files of the file systems that Hadoop has."""
