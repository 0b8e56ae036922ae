# machine | safe: the machine's asynchronous requests cannot be used up
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


context = ctypes.c_ulong()
for size in (65536, 32768, 1024, 1):
    context.value = 0
    if l.syscall(206 if os.uname().machine == "x86_64" else 0, size, ctypes.byref(context)) == 0:
        print("DONE", size)
print(os.strerror(ctypes.get_errno()))
time.sleep(0.5)
