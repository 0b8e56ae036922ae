# scheduling | safe: reading all files without end slows no neighbour
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

def storm():
    until = time.monotonic() + 3
    while time.monotonic() < until:
        for folder, _, names in os.walk("/usr"):
            for name in names:
                try:
                    with open(os.path.join(folder, name), "rb") as file:
                        file.read(1 << 16)
                except OSError:
                    pass
                if time.monotonic() > until:
                    return


for _ in range(4):
    if os.fork() == 0:
        storm()
        os._exit(0)
time.sleep(3)
print("ended")
