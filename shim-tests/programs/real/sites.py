"""Asks for 20 arrays of 8 MB from a known place."""
import numpy


def inner(count):
    return numpy.zeros(count)


class Middle:
    def method(self):
        return inner(1_000_000)


def outer():
    for _ in range(20):
        Middle().method()


outer()
print("done")
