# integrity | safe: -I -S ignores user site; system dir read-only
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import site

for d in (
    "/session/sitecustomize.py",
    "/session/usercustomize.py",
    "/usr/lib/python3.11/sitecustomize.py",
    "/session/.local/lib/python3.11/site-packages/x.pth",
):
    try:
        os.makedirs(os.path.dirname(d), exist_ok=True)
        open(d, "w").write('import os;os.environ["PWN"]="1"')
        print("wrote", d)
    except OSError as e:
        print(d, e.strerror)
