# machine | safe: names of files that others open or make cannot be watched
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


fd = l.inotify_init1(os.O_NONBLOCK)
print(fd, os.strerror(ctypes.get_errno()))
own = os.path.basename(os.getcwd()).encode()
for folder in ("/", "/tmp", "/var/tmp", "/etc", "/root", "/home", "/usr/bin", "/usr/lib", os.path.dirname(INFO["secret"])):
    is_own = folder == "/tmp" and os.getcwd() == "/session"
    if fd >= 0 and not is_own and l.inotify_add_watch(fd, folder.encode(), 0xFFF) >= 0:
        print("watches", folder)
until = time.monotonic() + 1.5
while fd >= 0 and time.monotonic() < until:
    time.sleep(0.05)
    try:
        event = os.read(fd, 1 << 16)
    except BlockingIOError:
        continue
    names = event[16:80].split(b"\0")[0]
    if names and own not in names:
        print("OPENED", names)
        break
