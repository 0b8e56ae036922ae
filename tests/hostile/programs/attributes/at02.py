# attributes | safe: owner of no file outside is changed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

OUTSIDE = (INFO["secret"], os.path.dirname(INFO["secret"]), INFO["unix"], "/usr/bin", "/etc/passwd", "/tmp/..")
for path in OUTSIDE:
    try:
        os.chown(path, os.getuid(), os.getgid())
        print("CALLED", path)
    except OSError as e:
        print(path, e.strerror)
