# kernel:int80 | safe: killed by arch check (SIGSYS)
import os, sys, ctypes, socket, time, signal, subprocess, threading, json
import mmap

m = mmap.mmap(-1, 4096, prot=7)
m.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")
print("getpid32", ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())
