# others' files | safe: files of another session cannot be found or written
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import glob

for path in glob.glob("/tmp/openenv-*") + glob.glob("/session/../session*") + glob.glob("/tmp/*/info.json"):
    if os.path.realpath(path) == os.getcwd():
        continue
    try:
        print(os.listdir(path))
        open(os.path.join(path, "planted"), "w")
        print("WROTE", path)
    except OSError as e:
        print(path, e.strerror)
print("looked")
