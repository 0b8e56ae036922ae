#!/bin/sh
cat > server.py <<'SERVER'
import socket

with socket.socket(socket.AF_UNIX) as server:
    server.bind("/tmp/greeting.sock")
    server.listen()
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello")
SERVER
python3 server.py &
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -S /tmp/greeting.sock ] && exit; sleep 0.2; done
