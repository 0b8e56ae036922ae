# sockets | safe: no name of the server's Unix socket reaches it
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

for path in (INFO["unix"], "/proc/self/root" + INFO["unix"], "/session/../.." + INFO["unix"], "\0" + INFO["abstract"]):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(path)
            print("CONNECTED", path)
        except OSError as e:
            print(path, e)
