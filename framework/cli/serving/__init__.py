"""Commands for those who keep pipelines running: reports, schedules and the server."""
