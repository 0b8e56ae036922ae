# exhaustion | safe: pipes of the greatest size are limited by their number
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import fcntl

ends = []
try:
    while True:
        pipe = os.pipe()
        ends += pipe
        fcntl.fcntl(pipe[1], 1031, 1 << 20)  # F_SETPIPE_SZ
        os.set_blocking(pipe[1], False)
        os.write(pipe[1], b"x" * (1 << 20))
except OSError as e:
    print(len(ends), e.strerror)
