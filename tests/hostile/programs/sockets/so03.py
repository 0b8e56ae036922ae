# sockets | safe: no address outside can be reached
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for address in ("169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "8.8.8.8"):
    for port in (80, 53):
        try:
            s = socket.socket()
            s.settimeout(0.2)
            s.connect((address, port))
            print("CONNECTED", address)
        except OSError as e:
            print(address, e)
try:
    print("CONNECTED", socket.getaddrinfo("example.com", 80))
except OSError as e:
    print(e)
