"""The server's side of HTTP/1.1: connections, requests, answers."""
