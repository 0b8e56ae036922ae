# others' files | safe: a file larger than its limit cannot be made without writing it either
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for act in (lambda fd: os.ftruncate(fd, 1 << 40), lambda fd: os.posix_fallocate(fd, 0, 1 << 40), lambda fd: os.pwrite(fd, b"x", 1 << 40)):
    fd = os.open("/session/big", os.O_RDWR | os.O_CREAT)
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        act(fd)
        print("MADE", os.fstat(fd).st_size)
    except OSError as e:
        print(e.strerror)
