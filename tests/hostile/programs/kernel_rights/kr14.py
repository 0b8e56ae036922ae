# kernel:reboot | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

assert os.environ.get("OPENENV_SANDBOX")
l = ctypes.CDLL(None, use_errno=True)
print(l.syscall(169, 0xFEE1DEAD, 672274793, 0, 0), os.strerror(ctypes.get_errno()))
