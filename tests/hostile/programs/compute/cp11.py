# compute:list mul | safe: MemoryError
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

x = [0] * 10**11
