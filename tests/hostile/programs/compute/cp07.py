# compute:bad bytecode | safe: SIGSEGV contained
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import types

f = lambda: 0
f.__code__ = f.__code__.replace(co_code=b"\x64\xff" * 40)
f()
