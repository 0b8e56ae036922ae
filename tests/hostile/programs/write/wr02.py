# write | safe: host must open results with O_NOFOLLOW / inside a dirfd; a link is not followed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
os.symlink(INFO["secret"], "/session/result.txt")
print(os.path.exists("/session/result.txt"))
