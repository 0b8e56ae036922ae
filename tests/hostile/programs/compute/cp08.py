# compute:zip bomb | safe: memory limit
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import zlib, io

z = zlib.compress(b"\0" * (64 << 20))
d = b""
for i in range(64):
    d += zlib.decompress(z)
