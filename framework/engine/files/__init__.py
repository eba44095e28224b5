"""Files on Hadoop file systems."""
