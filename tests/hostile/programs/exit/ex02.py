# exit | safe: rc 77
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

os._exit(77)
