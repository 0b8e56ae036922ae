# machine | safe: ending takes no time of the neighbours: many mappings, page tables and files
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import mmap

maps = []
try:
    for number in range(60000):
        maps.append(mmap.mmap(-1, 8192))
except (OSError, MemoryError) as e:
    print(len(maps), e)
try:
    for number in range(30000):
        open("/session/%d" % number, "w").close()
except OSError as e:
    print(number, e)
for _ in range(20):
    try:
        if os.fork() == 0:
            time.sleep(100)
    except OSError:
        break
print("ready")
