"""Imports what programs often use: random numbers, time, TLS, a pair of sockets."""

import datetime
import random
import secrets
import socket
import ssl
import uuid

secrets.token_hex(2)
uuid.uuid4()
random.random()
ssl.create_default_context()
assert datetime.datetime.now().year > 2000
one, other = socket.socketpair()
one.send(b"ok")
print(other.recv(2).decode())
