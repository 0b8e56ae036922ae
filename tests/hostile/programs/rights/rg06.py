# rights | safe: it can trace nothing, not even itself
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

print("DONE" if l.ptrace(0, 0, 0, 0) == 0 else os.strerror(ctypes.get_errno()))
child = os.fork()
if child == 0:
    time.sleep(2)
    os._exit(0)
print("DONE" if l.ptrace(16, child, 0, 0) == 0 else os.strerror(ctypes.get_errno()))
