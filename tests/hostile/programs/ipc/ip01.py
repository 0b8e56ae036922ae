# ipc | safe: shared memory of others cannot be attached or removed, by its number
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


l.shmat.restype = ctypes.c_void_p
for number in {INFO["shm"], *range(64)}:
    address = l.shmat(number, None, 0)
    if address not in (None, ctypes.c_void_p(-1).value):
        print("OPENED", number, ctypes.string_at(address, 32))
        ctypes.memset(address, 0, 8)
for name, number in (("stat", 13), ("remove", 0), ("info", 14)):
    if l.shmctl(INFO["shm"], number, ctypes.create_string_buffer(256)) >= 0:
        print("DONE", name)
print(os.strerror(ctypes.get_errno()))
