# output | safe: single 50 MiB line truncated at cap (no readline on host)
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

sys.stdout.write("y" * (50 << 20))
