"""Arithmetic that gives the same bits on every machine.

IEEE 754 fixes ``+ - * /`` and the square root to the last bit, and nothing else. Exponentials and logarithms come from
the C library, from NumPy's vector loops or from the compiler, and each rounds differently on another processor.
Wherever that could change a result, the project uses these modules instead:

``elementary``  exp, log, power, ... of one number; compiled kernels and plain Python call the same functions
``arrays``      the same over arrays, sums that do not depend on their order, interpolation
``draws``       exponential and normal random numbers
``keys``        rounded sort keys of policies, so that a rule decides ties, not the last bit
"""
