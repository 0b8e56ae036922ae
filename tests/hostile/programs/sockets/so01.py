# sockets | safe: no kind of stream reaches the server
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

port = INFO["port"]
for family, kind, protocol, address in (
    (socket.AF_INET, 1, 0, "127.0.0.1"), (socket.AF_INET, 1, 262, "127.0.0.1"), (socket.AF_INET, 1, 132, "127.0.0.1"),
    (socket.AF_INET, 1, 0, "0.0.0.0"), (socket.AF_INET6, 1, 0, "::1"), (socket.AF_INET6, 1, 0, "::ffff:127.0.0.1"), (socket.AF_INET6, 1, 0, "::"),
):
    try:
        s = socket.socket(family, kind, protocol)
        s.settimeout(1)
        s.connect((address, port))
        print("CONNECTED", family, protocol, address)
    except OSError as e:
        print(family, protocol, address, e)
