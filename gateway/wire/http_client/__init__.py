"""The client's side of HTTP/1.1: upstreams, asked over one of three transports."""
