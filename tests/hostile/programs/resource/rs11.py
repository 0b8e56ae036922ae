# resource | safe: killed at wall limit (CPU limit does not help)
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

time.sleep(1000)
