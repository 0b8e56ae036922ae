# write | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    os.mknod("/session/sda", 0o60666, os.makedev(254, 0))
    print("MADE")
except OSError as e:
    print(e)
