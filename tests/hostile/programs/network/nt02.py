# network | safe: bound only in private netns, or refused
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    s = socket.socket()
    s.bind(("0.0.0.0", 18888))
    s.listen()
    print("bound in private netns")
except OSError as e:
    print(e)
