# network | safe: only 0,1,2 (pipes) inherited
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(
    {f: os.readlink("/proc/self/fd/" + f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)}
)
