"""A translator for everybody: the HTTP server and its page, which is also that of the static site."""
