# resource | safe: killed at RLIMIT_CPU or wall limit
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

while 1:
    pass
