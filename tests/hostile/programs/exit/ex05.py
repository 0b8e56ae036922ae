# exit | safe: SIGSEGV or MemoryError, contained
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

sys.setrecursionlimit(10**9)


def f():
    return f()


f()
