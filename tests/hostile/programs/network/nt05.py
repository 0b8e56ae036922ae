# network | safe: refused: private netns + Landlock scope
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\0" + INFO["abstract"])
    print("CONNECTED abstract")
except OSError as e:
    print(e)
