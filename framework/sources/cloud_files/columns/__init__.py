"""The columns of files: inferred, hinted, widened, rescued."""
