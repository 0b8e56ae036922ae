# resource | safe: ENOSPC at tmpfs size / EFBIG
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    f = open("/tmp/fill", "wb")
    for i in range(400):
        f.write(b"x" * (1 << 20))
    print("WROTE 400M")
except OSError as e:
    print(e)
