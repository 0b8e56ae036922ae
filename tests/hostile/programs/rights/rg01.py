# rights | safe: no user, group or capability can be gained
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.setegid(0)):
    try:
        act()
        print("RAISED")
    except OSError as e:
        print(e.strerror)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(0xFFFFFFFF, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0)
if l.syscall(126, header, data) == 0:
    print("RAISED capabilities")
print([line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNew", "Seccomp"))])
