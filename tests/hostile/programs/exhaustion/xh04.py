# exhaustion | safe: processes that are never waited for count
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

count = 0
try:
    while True:
        if os.fork() == 0:
            os._exit(0)
        count += 1
except OSError as e:
    print(count, e.strerror)
print("MADE" if count > 200 else "few")
