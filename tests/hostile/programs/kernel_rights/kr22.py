# kernel:itimer | safe: own process only
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
signal.signal(14, lambda *a: None)
t = time.time()
while time.time() - t < 1:
    pass
print("ok")
