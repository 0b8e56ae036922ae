# resource | safe: kernel socket memory bounded by nofile (and memory cgroup)
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

s = []
try:
    while 1:
        a, b = socket.socketpair()
        a.setblocking(0)
        s += [a, b]
        try:
            while 1:
                a.send(b"x" * 65536)
        except BlockingIOError:
            pass
except OSError as e:
    print(len(s), e)
