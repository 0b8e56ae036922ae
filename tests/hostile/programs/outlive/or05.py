# outlive | safe: reader does not wait for EOF from a grandchild: pidns kill closes the pipe
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

if os.fork() == 0:
    time.sleep(300)
print("parent done, child holds stdout", flush=True)
os._exit(0)
