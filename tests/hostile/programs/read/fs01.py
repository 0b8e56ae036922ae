# read | safe: no such file; no content
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print(open("/etc/shadow").read())
