# sockets | safe: descriptors of the server are not inherited
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for name in os.listdir("/proc/self/fd"):
    try:
        print(name, os.readlink("/proc/self/fd/" + name))
        if int(name) > 3:
            print("OPENED", name)
    except OSError:
        pass
for fd in range(3, 128):
    try:
        socket.socket(fileno=fd)
        print("OPENED", fd)
    except OSError:
        pass
