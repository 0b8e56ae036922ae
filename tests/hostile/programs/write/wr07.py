# write | safe: count/size quota on session dir, or the host deletes it bounded
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for i in range(20000):
    try:
        open("/session/f%d" % i, "w").close()
    except OSError as e:
        print(i, e)
        break
else:
    print("20000 files")
