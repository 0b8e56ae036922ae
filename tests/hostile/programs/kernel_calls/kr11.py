# kernel:userfaultfd | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")
r = l.syscall(323, 1)
print(r, os.strerror(ctypes.get_errno()))
