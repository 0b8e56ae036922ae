# proc | safe: all refused
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for f in (
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/net/ipv4/ip_forward",
):
    try:
        fd = os.open(f, os.O_WRONLY)
        print("OPENED", f)
        os.close(fd)
    except OSError as e:
        print(f, e.strerror)
