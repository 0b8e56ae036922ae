# outlive | safe: orphan dies with pid namespace / cgroup.kill
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(15, signal.SIG_IGN)
        signal.signal(1, signal.SIG_IGN)
        os.closerange(0, 3)
        time.sleep(300)
    os._exit(0)
print("main exits")
