"""Storages: local folders and Hadoop file systems behind one port."""
