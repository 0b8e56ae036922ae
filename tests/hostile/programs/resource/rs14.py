# resource | safe: memfd charged to memory cgroup (not to RLIMIT_AS): OOM kill / EFBIG
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import mmap

x = []
try:
    while 1:
        m = os.memfd_create("a")
        os.ftruncate(m, 1 << 24)
        mm = mmap.mmap(m, 1 << 24)
        mm.write(b"x" * (1 << 24))
        mm.close()
        x.append(m)
except OSError as e:
    print(len(x), e)
