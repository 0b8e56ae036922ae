# exhaustion | safe: shared memory has a limit
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

total = 0
for folder in ("/dev/shm", "/run", "/dev", "/var/tmp"):
    try:
        for number in range(8):
            with open("%s/fill%d" % (folder, number), "wb") as file:
                for _ in range(30):
                    total += file.write(b"x" * (1 << 20))
    except OSError as e:
        print(folder, e.strerror)
print("WROTE" if total > 200 << 20 else "", total >> 20)
