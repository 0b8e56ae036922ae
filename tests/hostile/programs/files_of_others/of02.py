# others' files | safe: no file that it can find has a secret
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

until = time.monotonic() + 3
count = 0
for top in ("/tmp", "/var", "/home", "/root", "/srv", "/opt", "/run", "/etc", "/dev", "/mnt", "/data"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if time.monotonic() > until or not os.path.isfile(path) or "info.json" in path:
                continue
            try:
                with open(path, "rb") as file:
                    text = file.read(1 << 16)
            except OSError:
                continue
            count += 1
            where = text.find(b"CANA" + b"RY")
            if where >= 0:
                print(path, text[where : where + 30])
print(count, "files")
