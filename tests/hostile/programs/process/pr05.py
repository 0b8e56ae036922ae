# proc | safe: ESRCH: other pid namespace
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

for t in (INFO["server_pid"], INFO["victim_pid"]):
    try:
        os.kill(t, 9)
        print("KILLED", t)
    except OSError as e:
        print(t, e)
