# compute:compile | safe: MemoryError/RecursionError, no crash of host
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

compile("(" * 100000 + ")" * 100000, "x", "eval")
