# outlive | safe: SIGKILL after grace
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(300)
