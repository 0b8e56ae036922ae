# machine | safe: the end of processes with much memory, many mappings and threads slows no neighbour
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import mmap


def fill():
    kept = []
    try:
        while True:
            kept.append(mmap.mmap(-1, 1 << 30))
            for place in range(0, 1 << 30, 1 << 21):
                kept[-1][place] = 1
    except (OSError, MemoryError):
        pass
    try:
        while True:
            kept.append(mmap.mmap(-1, 4096, prot=1 + len(kept) % 2))
    except (OSError, MemoryError):
        time.sleep(100)


for _ in range(6):
    if os.fork() == 0:
        fill()
try:
    for _ in range(15):
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
except RuntimeError:
    pass
time.sleep(2.5)
os._exit(0)
