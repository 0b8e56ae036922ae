# output | safe: truncated at cap; producer killed; host memory flat
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

while 1:
    sys.stdout.write("x" * 65536)
