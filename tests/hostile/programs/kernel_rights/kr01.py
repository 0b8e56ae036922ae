# kernel:mount | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

assert os.environ.get("OPENENV_SANDBOX")
l = ctypes.CDLL(None, use_errno=True)
for a in ((b"proc", b"/tmp", b"proc", 0, None), (b"/usr", b"/usr", None, 4096 | 32, None)):
    print(l.mount(*a), os.strerror(ctypes.get_errno()))
