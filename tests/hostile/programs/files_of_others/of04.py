# others' files | safe: the kernel's memory, keys and addresses cannot be read
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for path in ("/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/slabinfo", "/proc/kpagecount", "/dev/mem", "/dev/kmsg", "/sys/kernel/debug", "/sys/kernel/security", "/proc/sysrq-trigger", "/proc/kmsg"):
    try:
        text = open(path, "rb").read(4096)
        is_secret = path == "/proc/kcore" or any(line[:16].strip(b"0") for line in text.splitlines()[:5]) and path == "/proc/kallsyms"
        print("OPENED" if is_secret else "readable", path)
    except OSError as e:
        print(path, e.strerror)
