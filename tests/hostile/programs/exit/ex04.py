# exit | safe: SIGSEGV, no core file
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

ctypes.string_at(0)
