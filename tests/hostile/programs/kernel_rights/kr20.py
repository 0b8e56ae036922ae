# kernel:prlimit raise | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import resource

for k in (resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_CPU):
    try:
        resource.setrlimit(k, (-1, -1))
        print("RAISED")
    except (ValueError, OSError) as e:
        print(e)
