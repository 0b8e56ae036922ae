# exhaustion | safe: no message queue can be made
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

made = 0
rt = ctypes.CDLL("librt.so.1", use_errno=True)
for number in range(300):
    if rt.mq_open(b"/flood%d" % number, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0:
        made += 1
print("MADE" if made else os.strerror(ctypes.get_errno()), made)
