# machine | safe: attributes of files outside cannot be read
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

for path in (INFO["secret"], os.path.dirname(INFO["secret"])):
    for act in (os.listxattr, lambda path: os.getxattr(path, "user.secret")):
        try:
            print("OPENED" if act(path) else "none", act(path))
        except OSError as e:
            print(path, e.strerror)
