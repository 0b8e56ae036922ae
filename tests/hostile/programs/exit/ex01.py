# exit | safe: rc 0 recorded, no verdict
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

sys.exit(0)
