# read | safe: pid 1 is the sandbox's own; nothing of the host
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(open("/proc/1/environ", "rb").read()[:200])
print(os.listdir("/proc/1/root"))
