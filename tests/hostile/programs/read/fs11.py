# read | safe: may show kernel command line and mount sources: information only
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(open("/proc/cmdline").read()[:40])
print(open("/proc/self/mountinfo").read()[:300])
