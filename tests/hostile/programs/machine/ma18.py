# machine | safe: no program in use can be written, by a mapping either
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import mmap

for path in (sys.executable, os.__file__, "/bin/sh", "/run/openenv/box_init.py", "/lib64/ld-linux-x86-64.so.2"):
    for mode in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        try:
            os.open(path, mode)
            print("OPENED", path)
        except OSError as e:
            print(path, e.strerror)
    try:
        fd = os.open(path, os.O_RDONLY)
        mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        print("OPENED", path)
    except OSError as e:
        print(path, e.strerror)
