"""Sensors after the Network Weather Service, and node benchmarks.

R. Wolski, N. Spring, J. Hayes, *The Network Weather Service*, Future Generation Computer Systems
15 (1999); M. Faerman et al., *Adaptive Performance Prediction for Distributed Data-Intensive
Applications* (1999), which takes its probes of 64 KiB from it.
"""
