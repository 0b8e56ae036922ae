"""Divides work among threads."""

from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(8) as executor:
    assert sum(executor.map(int, range(100))) == 4950
print("ok")
