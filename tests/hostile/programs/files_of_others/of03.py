# others' files | safe: its own memory and environment have no secret
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

found = set()
for line in open("/proc/self/maps"):
    fields = line.split()
    start, end = (int(part, 16) for part in fields[0].split("-"))
    if "r" not in fields[1] or len(fields) > 5 and fields[5] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
        continue
    try:
        text = ctypes.string_at(start, min(end - start, 1 << 24))
    except (OSError, ValueError):
        continue
    word = b"CANARY-ENV" + b"IRONMENT"
    if word in text and text.count(word):
        found.add(fields[-1])
print(len(found) > 1, [key for key in os.environ if "SECRET" in key])
