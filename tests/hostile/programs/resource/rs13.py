# resource | safe: threads capped by pids/NPROC
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    t = []
    while 1:
        x = threading.Thread(target=time.sleep, args=(30,))
        x.start()
        t.append(x)
except RuntimeError as e:
    print(len(t), e, flush=True)
    os._exit(0)
