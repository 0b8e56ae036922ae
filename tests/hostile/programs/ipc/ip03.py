# ipc | safe: message queues of others cannot be opened or removed, by their names
import os, sys, ctypes, socket, time, signal, subprocess, threading, json

INFO = json.load(open("/session/info.json"))
l = ctypes.CDLL(None, use_errno=True)
assert os.environ.get("OPENENV_SANDBOX")


rt = ctypes.CDLL("librt.so.1", use_errno=True)
queue = rt.mq_open(INFO["mq"].encode(), os.O_RDWR | os.O_NONBLOCK)
if queue >= 0:
    text = ctypes.create_string_buffer(1 << 16)
    print("OPENED", rt.mq_receive(queue, text, 1 << 16, None), text.value[:64])
print(os.strerror(ctypes.get_errno()))
if rt.mq_unlink(INFO["mq"].encode()) == 0:
    print("DONE")
