"""The JVM and the gateway to it: classes, exceptions, callbacks, call sites, and what a session leaves in it."""
