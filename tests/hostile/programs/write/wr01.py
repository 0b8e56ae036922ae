# write | safe: all refused
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for f in ("/usr/x", "/etc/x", "/x", "/bin/x", "/py/x", "/srv/x"):
    try:
        open(f, "w")
        print("WROTE", f)
    except OSError as e:
        print(f, e.strerror)
