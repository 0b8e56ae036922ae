# exhaustion | safe: descriptors in flight between sockets are limited
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import array

pairs = []
try:
    while True:
        a, b = socket.socketpair()
        a.setblocking(False)
        pairs.append((a, b))
        held = [os.dup(0) for _ in range(40)]
        try:
            while True:
                a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", held))])
        except BlockingIOError:
            pass
        finally:
            for fd in held:
                os.close(fd)
except OSError as e:
    print(len(pairs), e.strerror)
