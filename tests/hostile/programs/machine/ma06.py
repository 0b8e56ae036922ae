# machine | safe: filters of sockets take no memory of the machine
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

import resource, struct

instructions = (ctypes.c_char * (8 * 4096)).from_buffer_copy(struct.pack("HBBI", 0x04, 0, 0, 0x12345678) * 4095 + struct.pack("HBBI", 6, 0, 0, 1))
program = struct.pack("HxxxxxxQ", 4096, ctypes.addressof(instructions))


kept = []
try:
    while len(kept) < 120:
        kept += socket.socketpair()
        kept[-1].setsockopt(socket.SOL_SOCKET, 26, program)
    print("DONE")
except OSError as e:
    print(len(kept), e)
