# network | safe: stays in the private netns
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    s.sendto(b"x", ("127.0.0.1", 18998))
    print("udp sent in private lo")
except OSError as e:
    print(e)
