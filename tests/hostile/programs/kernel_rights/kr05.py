# kernel:chroot | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

try:
    os.mkdir("/tmp/c")
    os.chroot("/tmp/c")
    print("CHROOTED")
except OSError as e:
    print(e)
