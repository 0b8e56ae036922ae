# kernel:hostname | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

assert os.environ.get("OPENENV_SANDBOX")
try:
    socket.sethostname("pwn")
    print("SET")
except OSError as e:
    print(e)
