# attributes | safe: no flag or lock of a file system is set, and none is frozen
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import fcntl, struct

for path in ("/session", "/usr", "/tmp", "/"):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        print(path, e.strerror)
        continue
    for name, number, value in (("freeze", 0xC0045877, 0), ("trim", 0xC0185879, struct.pack("QQQ", 0, 1 << 62, 0)), ("immutable", 0x40086602, struct.pack("L", 0x10))):
        try:
            fcntl.ioctl(fd, number, value)
            print("DONE", name, path)
        except OSError as e:
            print(name, path, e.strerror)
