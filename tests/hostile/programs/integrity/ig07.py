# integrity | safe: no checker frames or objects in the process
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import inspect

f = sys._getframe()
while f:
    print(f.f_code.co_filename, list(f.f_globals)[:4])
    f = f.f_back
import gc

print(len(gc.get_objects()))
