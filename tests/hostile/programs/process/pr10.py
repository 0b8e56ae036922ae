# proc | safe: ESRCH
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

import resource

for f in (
    lambda: os.setpriority(0, INFO["victim_pid"], 19),
    lambda: resource.prlimit(INFO["victim_pid"], resource.RLIMIT_NOFILE, (0, 0)),
    lambda: os.sched_setaffinity(INFO["victim_pid"], {0}),
):
    try:
        f()
        print("DONE")
    except OSError as e:
        print(e)
