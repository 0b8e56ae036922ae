# attributes | safe: a file with the set-user-id bit gives no right
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import shutil

shutil.copyfile("/bin/sh", "/session/shell")
for mode in (0o4755, 0o6777):
    try:
        os.chmod("/session/shell", mode)
    except OSError as e:
        print(e.strerror)
print(oct(os.stat("/session/shell").st_mode))
for command in (["/session/shell", "-p", "-c", "id -u"], ["/usr/bin/su", "-c", "id -u"], ["/usr/bin/passwd", "-S"], ["/usr/bin/newgrp"]):
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=2)
        print(command[0], "RAISED" if done.stdout.strip() == "0" else done.stderr[:60])
    except (OSError, subprocess.TimeoutExpired) as e:
        print(command[0], e)
