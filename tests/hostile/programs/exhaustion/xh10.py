# exhaustion | safe: memory of all kinds together is limited, or is the program's own
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import mmap

kept = []
for folder in ("/session", "/tmp", "/dev/shm"):
    try:
        for number in range(4):
            with open("%s/m%d" % (folder, number), "wb") as file:
                for _ in range(30):
                    file.write(b"x" * (1 << 20))
                kept.append(mmap.mmap(os.open(file.name, os.O_RDONLY), 0, prot=mmap.PROT_READ))
    except (OSError, ValueError) as e:
        print(folder, e)
for number in range(8):
    try:
        fd = os.memfd_create("m", 0)
        os.posix_fallocate(fd, 0, 30 << 20)
        kept.append(mmap.mmap(fd, 0))
        kept[-1].madvise(mmap.MADV_HUGEPAGE)
    except (OSError, ValueError) as e:
        print(e)
try:
    while len(kept) < 500:
        kept.append(bytearray(4 << 20))
    print("2 GB")
except MemoryError:
    print("no more memory", len(kept))
