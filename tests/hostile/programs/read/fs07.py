# read | safe: absent
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(os.listdir("/root"), os.listdir("/home"))
