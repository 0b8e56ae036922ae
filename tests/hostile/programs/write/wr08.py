# write | safe: host cleanup survives paths > PATH_MAX (rmtree by dirfd)
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

d = "/session"
for i in range(3000):
    d = "a" * 200
    os.mkdir(d)
    os.chdir(d)
print("deep")
