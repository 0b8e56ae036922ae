# read | safe: {} : host environment not passed
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

print({k: v for k, v in os.environ.items() if "SECRET" in k or "KEY" in k or "TOKEN" in k})
