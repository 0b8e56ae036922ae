# attributes | safe: no file outside is shortened, moved or removed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

OUTSIDE = (INFO["secret"], os.path.dirname(INFO["secret"]), INFO["unix"], "/usr/bin", "/etc/passwd", "/tmp/..")
for act in (lambda p: os.truncate(p, 0), os.unlink, os.rmdir, lambda p: os.rename(p, "/session/taken"), lambda p: os.link(p, "/session/linked")):
    for path in OUTSIDE:
        try:
            act(path)
            print("DONE", path)
        except OSError as e:
            print(path, e.strerror)
