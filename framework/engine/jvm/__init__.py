"""The JVM and its gateway: classes, exceptions, callbacks, call sites, and the state that a session leaves behind."""
