# network | safe: raw/packet/netlink/AF_ALG/vsock refused
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for a in (
    (socket.AF_INET, socket.SOCK_RAW, 1),
    (17, socket.SOCK_RAW, 3),
    (16, socket.SOCK_RAW, 0),
    (38, 5, 0),
    (40, 1, 0),
):
    try:
        socket.socket(*a)
        print("OPEN", a)
    except OSError as e:
        print(a, e)
