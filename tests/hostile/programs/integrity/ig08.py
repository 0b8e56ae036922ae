# integrity | safe: harmless in a throwaway process; a warm interpreter must be discarded
import os, sys, ctypes, socket, time, signal, subprocess, threading, json


def t(f, e, a):
    return t


sys.settrace(t)
sys.setprofile(lambda *a: None)
sys.modules["unittest"] = None
print("ok")
