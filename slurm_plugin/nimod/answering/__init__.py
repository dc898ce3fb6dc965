"""Answers that take long, made in a process of their own: advice, waits, questions about the store.

In nimod `process` says whose turn it is, and has `worker` answer; `questions` brings over what an
answer follows from, and makes it.
"""
