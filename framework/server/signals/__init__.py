"""What the server does by itself: runs of schedules."""
