# exhaustion | safe: timers and locks of the kernel are charged to it
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

import fcntl

count = 0
timer = ctypes.c_void_p()
while count < 200000 and l.timer_create(1, None, ctypes.byref(timer)) == 0:
    count += 1
print(count, "timers")
file = open("/session/locks", "wb")
count = 0
until = time.monotonic() + 2
try:
    while time.monotonic() < until:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * count)
        count += 1
except OSError as e:
    print(e.strerror)
print(count, "locks")
