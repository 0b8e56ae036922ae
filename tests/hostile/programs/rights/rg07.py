# rights | safe: a control group cannot be left or changed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import glob

for path in ["/sys/fs/cgroup/cgroup.procs", *glob.glob("/sys/fs/cgroup/*/cgroup.procs"), *glob.glob("/sys/fs/cgroup/*/*/memory.limit_in_bytes"), "/proc/self/cgroup"]:
    try:
        with open(path, "w") as file:
            file.write("0")
        print("WROTE", path)
    except OSError as e:
        print(path, e.strerror)
try:
    os.makedirs("/sys/fs/cgroup/memory/mine")
    print("MADE")
except OSError as e:
    print(e.strerror)
