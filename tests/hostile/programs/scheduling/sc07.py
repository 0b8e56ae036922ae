# scheduling | safe: starting programs without end slows no neighbour
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

def storm():
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        except OSError:
            pass


threads = [threading.Thread(target=storm) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print("ended")
