# exit | safe: huge traceback truncated
import os, sys, ctypes, socket, time, signal, subprocess, threading, json


def f():
    raise BaseException("x" * 10**6)


f()
