# output | safe: escapes stripped/escaped when shown to a person
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

sys.stdout.write("\x1b]0;pwn\x07\x1b[2J\x1b[31mRED\x1b]52;c;cHdu\x07")
print("\u202egnp.exe \ud83d\ude00".encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
