# network | safe: ECONNREFUSED (own empty netns) or EACCES (Landlock)
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

s = socket.socket()
s.settimeout(2)
try:
    s.connect(("127.0.0.1", INFO["port"]))
    print("CONNECTED")
except OSError as e:
    print(e)
