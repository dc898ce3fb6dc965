"""Active learning: which run of an application would teach most about it.

P. Shivam, S. Babu, J. Chase, *Active and Accelerated Learning of Cost Models for Optimizing
Scientific Applications*, VLDB 2006.  Pure: the caller makes the proposed runs and returns samples.
"""
