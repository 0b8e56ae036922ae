# streams | safe: names that are no text, pipes and sockets may be left
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

for name in (b"\xff\xfe", b"a\nb", b"-rf", b"$(touch x)", b"\x1b[2J", b"x" * 255, b" ", "\u202e".encode()):
    os.makedirs(b"/session/" + name + b"/" + name, 0o700, exist_ok=True)
    os.mkfifo(b"/session/" + name + b"/pipe")
    os.symlink(b"..", b"/session/" + name + b"/up")
    try:
        socket.socket(socket.AF_UNIX).bind(b"/session/" + name[:50] + b"/socket")
    except OSError as e:
        print(e.strerror)
    os.chmod(b"/session/" + name, 0)
if os.fork() == 0:
    held = os.open("/session", os.O_RDONLY)
    os.fchdir(held)
    while True:
        os.symlink("/etc/passwd", "again%d" % time.monotonic_ns())
