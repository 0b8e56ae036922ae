# machine | safe: dropping the machine's cache of files slows no neighbour
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

until = time.monotonic() + 3
folders = [os.path.dirname(os.__file__), "/usr/lib"]
count = 0
while time.monotonic() < until:
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                try:
                    fd = os.open(os.path.join(folder, name), os.O_RDONLY)
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(fd)
                    count += 1
                except OSError:
                    pass
            if time.monotonic() > until:
                break
print(count)
