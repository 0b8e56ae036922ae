# machine | safe: timers without end slow no neighbour
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


signal.pthread_sigmask(signal.SIG_BLOCK, [])


class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_char * 48)]


signal.signal(signal.SIGRTMIN, signal.SIG_IGN)
count, timer = 0, ctypes.c_void_p()
event = Event(None, signal.SIGRTMIN, 0)
spec = (ctypes.c_long * 4)(0, 1000, 0, 1000)
while count < 20000 and l.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0:
    l.timer_settime(timer, 0, spec, None)
    count += 1
print(count)
time.sleep(2)
