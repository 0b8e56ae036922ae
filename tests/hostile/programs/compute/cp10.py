# compute:hash flood | safe: CPU/memory limit
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

d = {}
for i in range(10**9):
    d[i * (2**61 - 1)] = 1
