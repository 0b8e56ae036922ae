# output | safe: EOF on stdout is not taken as exit; wall limit
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

os.close(1)
os.close(2)
time.sleep(300)
