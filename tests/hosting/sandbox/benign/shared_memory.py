"""Makes a block of shared memory."""

from multiprocessing.shared_memory import SharedMemory

block = SharedMemory(create=True, size=1000)
block.close()
block.unlink()
print("ok")
