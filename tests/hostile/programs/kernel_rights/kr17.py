# kernel:dev | safe: none present
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(os.listdir("/dev"))
for d in ("mem", "kmem", "vda", "kvm", "fuse", "net/tun", "vsock"):
    try:
        os.open("/dev/" + d, 0)
        print("OPEN", d)
    except OSError as e:
        pass
