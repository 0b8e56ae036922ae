# scheduling | safe: no process gets a higher priority
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for policy in (os.SCHED_FIFO, os.SCHED_RR):
    try:
        os.sched_setscheduler(0, policy, os.sched_param(1))
        print("RAISED", policy)
    except OSError as e:
        print(policy, e.strerror)
for act in (lambda: os.nice(-5), lambda: os.setpriority(os.PRIO_PROCESS, 0, -10), lambda: os.setpriority(os.PRIO_USER, os.getuid(), 10)):
    try:
        act()
        print("RAISED")
    except OSError as e:
        print(e.strerror)
