# proc | safe: EPERM
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

l = ctypes.CDLL(None, use_errno=True)


class I(ctypes.Structure):
    _fields_ = [("b", ctypes.c_void_p), ("n", ctypes.c_size_t)]


b = ctypes.create_string_buffer(8)
a = I(ctypes.addressof(b), 8)
print(l.process_vm_readv(1, ctypes.byref(a), 1, ctypes.byref(a), 1, 0), os.strerror(ctypes.get_errno()))
