# exhaustion | safe: watches of files are its own
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

fds = []
while True:
    fd = l.inotify_init()
    if fd < 0:
        print(len(fds), os.strerror(ctypes.get_errno()))
        break
    fds.append(fd)
count = 0
for folder, folders, names in os.walk("/usr"):
    if l.inotify_add_watch(fds[0], folder.encode(), 0xFFF) >= 0:
        count += 1
print(count)
