# rights | safe: file systems cannot be mounted by the new calls
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

CALLS = (
    ("open_tree", (428, -100, b"/usr", 1)), ("move_mount", (429, -100, b"/usr", -100, b"/tmp", 0)), ("fsopen", (430, b"tmpfs", 0)),
    ("fspick", (433, -100, b"/", 0)), ("mount_setattr", (442, -100, b"/", 0, 0, 32)), ("quotactl_fd", (443, 0, 0, 0, 0)),
    ("umount2", (166, b"/proc", 2)), ("pivot_root", (155, b".", b".")), ("swapon", (167, b"/session/x", 0)),
)
for name, arguments in CALLS:
    ctypes.set_errno(0)
    r = l.syscall(*arguments)
    if r >= 0:
        print("DONE", name)
    else:
        print(name, r, os.strerror(ctypes.get_errno()))
