# scheduling | safe: no file of another process can be written
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

for pid in (INFO["victim_pid"], INFO["server_pid"], 1):
    for name in ("oom_score_adj", "coredump_filter", "clear_refs", "timerslack_ns", "mem", "comm", "attr/current", "uid_map", "setgroups", "task/%d/comm" % pid):
        try:
            with open("/proc/%d/%s" % (pid, name), "w") as file:
                file.write("1")
            print("WROTE", pid, name)
        except OSError as e:
            print(pid, name, e.strerror)
