# exit | safe: stopped process: wall limit, SIGKILL works
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

os.kill(os.getpid(), signal.SIGSTOP)
