# resource | safe: summed over processes by cgroup; RLIMIT_AS alone is per process
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import mmap

x = []
for i in range(8):
    if os.fork() == 0:
        y = []
        while 1:
            y.append(bytearray(b"x") * (1 << 22))
time.sleep(5)
print("parent alive")
