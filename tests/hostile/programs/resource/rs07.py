# resource | safe: EFBIG at RLIMIT_FSIZE
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    f = open("/session/big", "wb")
    for i in range(400):
        f.write(b"x" * (1 << 20))
    print("WROTE")
except OSError as e:
    print(i, e)
