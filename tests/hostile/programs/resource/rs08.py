# resource | safe: session dir quota: RLIMIT_FSIZE does not sum; needs sized tmpfs
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    for n in range(64):
        with open("/session/f%d" % n, "wb") as f:
            f.write(b"x" * (8 << 20))
    print("WROTE 512M in many files")
except OSError as e:
    print(n, e)
