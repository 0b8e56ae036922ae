# machine | safe: no lease makes a process wait that opens a file
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import fcntl

signal.signal(signal.SIGIO, signal.SIG_IGN)
for path in ("/session/info.json", sys.executable, os.__file__, "/usr/bin/env"):
    for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK):
        try:
            fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, kind)
            print("SET", path, kind)
        except OSError as e:
            print(path, e.strerror)
