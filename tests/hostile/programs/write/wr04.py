# write | safe: hardlink EXDEV/EPERM; host opens with O_NONBLOCK and checks S_ISREG so a fifo cannot hang it
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    os.link("/usr/bin/python3", "/session/hl")
except OSError as e:
    print(e)
os.mkfifo("/session/answer.txt")
print("fifo made")
