"""Answers that take long, made in a process of their own: advice, waits, questions about the store.

In nimod `queues` says whose turn it is, and `process` has `worker` answer; `state` brings over what
an answer follows from, and `questions` makes it.
"""
