#!/bin/sh
python3 - <<'CHECK'
import json
import os
import socket

got = b""
try:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect("/tmp/greeting.sock")
        got = client.recv(100)
except OSError as error:
    print(error)
is_right = got == os.environ["WANTED"].encode()
with open("/logs/verifier/reward.json", "w") as file:
    json.dump({"reward": float(is_right), "bytes": len(got)}, file)
CHECK
