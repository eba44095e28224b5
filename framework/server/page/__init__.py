"""The files of the page: `static` is served as it is, the rest is for developers."""
