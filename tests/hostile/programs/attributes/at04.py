# attributes | safe: extended attributes of no file outside are changed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

OUTSIDE = (INFO["secret"], os.path.dirname(INFO["secret"]), INFO["unix"], "/usr/bin", "/etc/passwd", "/tmp/..")
for path in OUTSIDE:
    try:
        os.setxattr(path, "user.mark", b"1")
        print("CALLED", path)
    except OSError as e:
        print(path, e.strerror)
