# ipc | safe: semaphores and messages of others cannot be used or removed, by their numbers
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


if l.semctl(INFO["sem"], 0, 16, 99) >= 0:
    print("SET a semaphore")
print(os.strerror(ctypes.get_errno()))
operation = (ctypes.c_short * 3)(0, 1, 0)
if l.semop(INFO["sem"], operation, 1) >= 0:
    print("DONE semop")
text = ctypes.create_string_buffer(256)
if l.msgrcv(INFO["queue"], text, 200, 0, 0o4000) >= 0:
    print("OPENED", text.raw[8:64])
for call in (l.semctl, l.msgctl):
    if call(INFO["queue" if call is l.msgctl else "sem"], 0, 0) >= 0:
        print("DONE remove")
print(os.strerror(ctypes.get_errno()))
