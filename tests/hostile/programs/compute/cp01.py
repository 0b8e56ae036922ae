# compute:huge int | safe: CPU/mem limit or ValueError
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(len(str(10 ** (10**8))))
