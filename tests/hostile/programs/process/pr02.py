# proc | safe: own memory only: harmless
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    f = open("/proc/self/mem", "r+b", 0)
    b = ctypes.create_string_buffer(b"abc")
    f.seek(ctypes.addressof(b))
    f.write(b"xyz")
    print(b.value)
except OSError as e:
    print(e)
