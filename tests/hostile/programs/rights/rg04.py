# rights | safe: memory and descriptors of other processes cannot be taken
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

pid = INFO["victim_pid"]
CALLS = (
    ("ptrace attach", (101, 16, pid, 0, 0)), ("ptrace seize", (101, 0x4206, pid, 0, 0)), ("process_vm_readv", (310, pid, 0, 0, 0, 0, 0)),
    ("kcmp", (312, pid, os.getpid(), 0, 0, 0)), ("move_pages", (279, pid, 0, 0, 0, 0, 0)), ("migrate_pages", (256, pid, 1, 0, 0)),
    ("get_robust_list", (274, pid, 0, 0)), ("perf", (298, 0, pid, -1, -1, 0)), ("sched_setaffinity", (203, pid, 8, 0)),
    ("sched_setattr", (314, pid, 0, 0)), ("ioprio_set", (251, 1, pid, 0)), ("setpgid", (109, pid, 0)), ("process_madvise", (440, 0, 0, 0, 21, 0)),
)
for name, arguments in CALLS:
    ctypes.set_errno(0)
    r = l.syscall(*arguments)
    if r == 0:
        print("DONE", name)
    else:
        print(name, r, os.strerror(ctypes.get_errno()))
