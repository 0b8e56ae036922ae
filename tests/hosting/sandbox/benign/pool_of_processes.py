"""Divides work among processes."""

import multiprocessing


def square(x: int) -> int:
    return x * x


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    print("ok")
