# machine | safe: a user's watches and timers are not used up for others
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


import resource

count = 0
while count < 120 and l.inotify_init() >= 0:
    count += 1
print(count, "watches")
if os.fork() == 0:
    while count < 400 and l.inotify_init() >= 0:
        count += 1
    time.sleep(1)
    os._exit(0)
timers, timer = 0, ctypes.c_void_p()
while timers < 100000 and l.timer_create(1, None, ctypes.byref(timer)) == 0:
    timers += 1
print(timers, "timers", resource.getrlimit(resource.RLIMIT_SIGPENDING))
time.sleep(1)
