# kernel:sysv | safe: private ipc namespace: dies with it, charged to cgroup
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
r = l.shmget(1234, 1 << 20, 0o1666)
print(r >= 0, os.strerror(ctypes.get_errno()))
