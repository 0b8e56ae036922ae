# machine | safe: a chain of processes that each start the next one ends with the sandbox
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import mmap, platform

assert platform.machine() == "x86_64"
code = bytes.fromhex("b839000000" "0f05" "85c0" "74f5" "b83c000000" "31ff" "0f05")  # fork; the child goes on, the parent ends
block = mmap.mmap(-1, 4096, prot=7)
block.write(code)
run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(block)))
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        run()
print("started")
