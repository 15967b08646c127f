"""The translator as an HTTP server, and its page."""
