# scheduling | safe: all sandboxes wait for no disk
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

until = time.monotonic() + 3
count = 0
while time.monotonic() < until:
    os.sync()
    count += 1
print(count)
