# others' files | safe: no way around names reaches a secret
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))

secret = INFO["secret"]
ways = [secret, "/proc/self/root" + secret, "/proc/1/root" + secret, "/proc/self/cwd/../../.." + secret, "/session/../.." + secret, "/proc/%d/root%s" % (INFO["server_pid"], secret), "/dev/fd/../../.." + secret, "//" + secret]
os.symlink(secret, "/session/link")
ways.append("/session/link")
for way in ways:
    try:
        print(way, open(way).read())
    except OSError as e:
        print(way, e.strerror)
try:
    held = os.open(os.path.dirname(secret), os.O_PATH)
    print(os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=held), 100))
except OSError as e:
    print(e.strerror)
