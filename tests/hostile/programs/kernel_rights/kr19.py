# kernel:core | safe: cannot raise hard limit; no core
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import resource

try:
    resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
    print("RAISED")
except (ValueError, OSError) as e:
    print(e)
os.abort()
