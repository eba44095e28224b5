"""The session server: a JVM that is ready for the commands of one project folder."""
