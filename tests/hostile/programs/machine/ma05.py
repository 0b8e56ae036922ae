# machine | safe: many groups of busy processes slow no neighbour
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

def burn():
    os.setsid()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        pass
    os._exit(0)


for _ in range(28):
    try:
        if os.fork() == 0:
            burn()
    except OSError:
        break
time.sleep(3)
