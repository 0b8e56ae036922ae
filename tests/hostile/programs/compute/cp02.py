# compute:pow | safe: CPU limit
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

x = 9**9**9
