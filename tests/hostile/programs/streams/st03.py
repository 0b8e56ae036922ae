# streams | safe: a parent that waits for a child it has started by vfork is killed with it
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import mmap, platform

assert platform.machine() == "x86_64"
code = bytes.fromhex("b83a0000000f0585c07409" "b83c00000031ff0f05" "b8220000000f05ebf7")  # vfork; the child pauses
block = mmap.mmap(-1, 4096, prot=7)
block.write(code)
run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(block)))
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        run()
print("started", flush=True)
run()
