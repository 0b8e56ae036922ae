# rights | safe: calls by another table of numbers end the program
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

print(l.syscall(0x40000000 + 39))
print("OPENED")
