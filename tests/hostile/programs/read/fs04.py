# read | safe: [] or EACCES: no process outside is visible
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import glob

print([l for f in glob.glob("/proc/[0-9]*/environ") for l in open(f, "rb").read().split(b"\0") if b"SECRET" in l])
