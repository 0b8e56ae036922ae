# proc | safe: own session (setsid) only: server not killed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

assert os.environ.get("OPENENV_SANDBOX") and os.getpid() < 100
print(os.getpgid(0), os.getsid(0))
os.kill(0, signal.SIGKILL)
