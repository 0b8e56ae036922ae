# streams | safe: its standard streams give nothing of the server
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

import fcntl

for fd in (0, 1, 2):
    for name, act in (
        ("size", lambda: fcntl.fcntl(fd, 1031, 1 << 20)), ("owner", lambda: fcntl.fcntl(fd, fcntl.F_SETOWN, INFO["server_pid"])),
        ("signal", lambda: fcntl.fcntl(fd, 10, signal.SIGKILL)), ("async", lambda: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)),
    ):
        try:
            act()
        except OSError as e:
            print(fd, name, e.strerror, file=sys.stderr)
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            other = os.open("/proc/self/fd/%d" % fd, mode | os.O_NONBLOCK)
            os.write(other, b"x" * 4096) if mode else os.read(other, 4096)
        except OSError as e:
            pass
time.sleep(0.2)
