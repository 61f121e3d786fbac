"""Arithmetic that gives the same bits on every machine.

IEEE 754 defines the results of ``+ - * /`` and of the square root to the last bit, but not those of other functions.
Exponentials and logarithms come from the C library, from numpy's vector loops or from the compiler, and their rounding
depends on the processor. Wherever this could change a result, the project uses the modules of this package:

- ``elementary``: exp, log, power and others of one number; compiled kernels and plain Python call the same functions.
- ``arrays``: the same functions over arrays, sums that do not depend on the order of the values, and interpolation.
- ``draws``: exponential and normal random numbers.
- ``keys``: rounded sort keys of policies, so that nearly equal keys are ties, which an explicit rule breaks.
"""
