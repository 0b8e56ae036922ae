# outlive | safe: wall limit covers exit handlers
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import atexit

atexit.register(lambda: time.sleep(300))
print("result 42", flush=True)
