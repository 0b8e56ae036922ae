# sockets | safe: odd families and raw packets are refused
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for family in range(1, 46):
    for kind in (1, 2, 3, 5):
        try:
            s = socket.socket(family, kind, 0 if kind != 3 else 1)
            if family not in (1, 2, 10) or kind == 3 and family != 1:
                print("OPENED", family, kind)
            s.close()
        except OSError:
            pass
print("tried")
