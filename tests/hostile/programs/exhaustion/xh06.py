# exhaustion | safe: memory cannot be locked, nor taken in huge pages
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

import mmap

print("mlockall", l.mlockall(7), os.strerror(ctypes.get_errno()))
block = mmap.mmap(-1, 64 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(block))
print("mlock", l.mlock(ctypes.c_void_p(address), 64 << 20) == 0 and "DONE" or os.strerror(ctypes.get_errno()))
try:
    mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
    print("huge page")
except OSError as e:
    print(e)
