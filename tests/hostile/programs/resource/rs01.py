# resource | safe: pids.max/NPROC stops growth, wall limit kills whole tree
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

assert os.environ.get("OPENENV_SANDBOX")
while 1:
    try:
        os.fork()
    except OSError:
        pass
