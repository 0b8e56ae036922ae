# scheduling | safe: it can end its own processes only
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

if os.fork() == 0:
    time.sleep(300)
    os._exit(0)
print("all", flush=True)
os.kill(-1, signal.SIGKILL)
