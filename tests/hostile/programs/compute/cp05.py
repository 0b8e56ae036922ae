# compute:const fold | safe: bounded
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

compile("(1<<300000000)*2", "x", "eval")
