# streams | safe: calls that wait for an answer of the program itself end with it
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

import struct

number = 39 if os.uname().machine == "x86_64" else 172  # getpid
filters = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, number) + struct.pack("HBBI", 6, 0, 0, 0x7FC00000) + struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
kept = ctypes.create_string_buffer(filters)
program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(kept))
listener = l.syscall(317 if number == 39 else 277, 1, 8, program)
print("listens", listener, os.strerror(ctypes.get_errno()), flush=True)
for _ in range(4):
    if os.fork() == 0:
        os.getpid()
        os._exit(0)
os.getpid()
