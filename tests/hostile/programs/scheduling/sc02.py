# scheduling | safe: nothing outside gets a signal, by any call
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")

pid = INFO["victim_pid"]
for name, arguments in (("kill", (62, pid, 9)), ("tkill", (200, pid, 9)), ("tgkill", (234, pid, pid, 9)), ("rt_sigqueueinfo", (129, pid, 9, 0)), ("pidfd_open", (434, pid, 0))):
    r = l.syscall(*arguments)
    print(name, r, os.strerror(ctypes.get_errno()))
    if name == "pidfd_open" and r >= 0:
        print("pidfd_send_signal", l.syscall(424, r, 9, 0, 0), "process_mrelease", l.syscall(448, r, 0))
for pid in (INFO["server_pid"], os.getppid()):
    for number in (signal.SIGSTOP, signal.SIGTERM):
        try:
            os.kill(pid, number)
        except OSError as e:
            print(pid, e.strerror)
try:
    os.killpg(INFO["victim_pid"], 9)
    print("KILLED")
except OSError as e:
    print(e.strerror)
