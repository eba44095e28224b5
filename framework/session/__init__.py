"""The Spark session: Java, jars, the class archive, the JVM process and its settings."""
