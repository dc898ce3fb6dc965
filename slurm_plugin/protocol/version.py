"""Version of all messages, apart from them: who sends one kind need not load the others."""

VERSION = 1
