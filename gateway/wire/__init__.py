"""Bytes: frames, heartbeats, the HTTP server's and the HTTP client's side."""
