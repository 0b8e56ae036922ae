# exhaustion | safe: memory that no process maps any more is charged to it
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

fds = []
try:
    while True:
        fd = os.memfd_create("hoard")
        fds.append(fd)
        for _ in range(16):
            os.write(fd, b"x" * (1 << 20))
except OSError as e:
    print(len(fds), e.strerror)
