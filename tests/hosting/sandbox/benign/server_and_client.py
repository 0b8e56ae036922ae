"""Serves on the loopback interface, and connects to itself."""

import socket

with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    socket.create_connection(server.getsockname()).close()
print("ok")
